package cluster

import (
	"context"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// feed keeps the objects of one list or one name as the API server has them. Unlike a shared informer it reports that it
// may not read, or that the resource does not exist yet, and it looks again within seconds.
type feed struct {
	cache.Store
	what      string
	reflector *cache.Reflector
	transform cache.TransformFunc

	mu       sync.Mutex
	synced   bool
	err      error
	expected string // resource version of a write of ours that is still to be seen
	changed  []func()
}

// origin lists and watches.
type origin struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// client says whether it can stream a list.
	client any
	// field and label select what is wanted.
	field, label string
}

// retry bounds how long an absent resource or namespace, or a missing right, goes unnoticed once it is there.
var retry = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 6, Cap: 5 * time.Second, Jitter: 0.2}

// newFeed makes a feed of objects like the example. The transform, which may be nil, strips what is not looked at, so
// that a change of it goes unnoticed.
func newFeed(what string, example runtime.Object, s origin, transform cache.TransformFunc) *feed {
	f := &feed{what: what, transform: transform}
	var options []cache.StoreOption
	if transform != nil {
		options = append(options, cache.WithTransformer(transform))
	}
	f.Store = cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc, options...)
	narrow := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector, o.LabelSelector = s.field, s.label
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := s.list(ctx, narrow(o))
			f.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := s.watch(ctx, narrow(o))
			f.note(ctx, err)
			return w, err
		},
	}
	backoff := retry
	f.reflector = cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, s.client), example, f,
		cache.ReflectorOptions{Name: what, Backoff: &backoff})
	return f
}

// subscribe calls the function after each change. It must be called before run.
func (f *feed) subscribe(changed func()) { f.changed = append(f.changed, changed) }

// run follows the API server until the context ends.
func (f *feed) run(ctx context.Context) { f.reflector.RunWithContext(ctx) }

// note remembers why nothing can be read, until something can.
func (f *feed) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	changed := (f.err == nil) != (err == nil)
	f.err = err
	f.mu.Unlock()
	if changed {
		f.notify()
	}
}

// state reports whether the objects were ever read, and why they cannot be read now.
func (f *feed) state() (synced bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.synced, f.err
}

// expect remembers the version that a write of ours returned.
func (f *feed) expect(version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected = version
}

// behind reports whether the feed has yet to see the last write of ours. A new list ends the wait: after an API server's
// data was restored from a backup, the version would never come.
func (f *feed) behind() bool {
	f.mu.Lock()
	expected := f.expected
	f.mu.Unlock()
	if expected == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(f.reflector.LastSyncResourceVersion(), expected)
	return err == nil && order < 0
}

func (f *feed) notify() {
	for _, changed := range f.changed {
		changed()
	}
}

func (f *feed) read() {
	f.mu.Lock()
	f.synced, f.err = true, nil
	f.mu.Unlock()
}

// Transformer lets the reflector strip objects while it streams a list.
func (f *feed) Transformer() cache.TransformFunc { return f.transform }

// Add is part of the reflector's store.
func (f *feed) Add(obj any) error {
	defer f.notify()
	f.read()
	return f.Store.Add(obj)
}

// Update is part of the reflector's store. A change that the transform strips is no change.
func (f *feed) Update(obj any) error {
	old, found, err := f.Get(obj)
	if err != nil {
		return err
	}
	if err := f.Store.Update(obj); err != nil {
		return err
	}
	if now, _, _ := f.Get(obj); !found || f.transform == nil || !reflect.DeepEqual(old, now) {
		f.notify()
	}
	return nil
}

// Delete is part of the reflector's store.
func (f *feed) Delete(obj any) error {
	defer f.notify()
	return f.Store.Delete(obj)
}

// Replace is part of the reflector's store.
func (f *feed) Replace(list []any, version string) error {
	defer f.notify()
	defer f.read()
	f.expect("")
	return f.Store.Replace(list, version)
}

// one returns the only object of a feed that follows one name.
func one[T any](f *feed) (object T, found bool) {
	for _, o := range f.List() {
		if typed, ok := o.(T); ok {
			return typed, true
		}
	}
	return object, false
}

// all returns every object.
func all[T any](f *feed) []T {
	objects := f.List()
	list := make([]T, 0, len(objects))
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			list = append(list, typed)
		}
	}
	return list
}
