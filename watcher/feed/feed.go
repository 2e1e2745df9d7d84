package feed

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

// Feed keeps the objects of one list or one name as the API server has them. Unlike a shared informer it reports that it
// may not read, or that the resource does not exist yet, and it looks again within seconds.
type Feed struct {
	cache.Store
	What      string // it is of, for people
	reflector *cache.Reflector
	transform cache.TransformFunc

	mu       sync.Mutex
	synced   bool
	err      error
	expected string // resource version of a write of ours that is still to be seen
	changed  []func()
}

// Origin lists and watches.
type Origin struct {
	List  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	Watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// Client says whether it can stream a list.
	Client any
	// Field and Label select what is wanted.
	Field, Label string
}

// retry bounds how long an absent resource or namespace, or a missing right, goes unnoticed once it is there.
var retry = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 6, Cap: 5 * time.Second, Jitter: 0.2}

// New makes a feed of objects like the example. The transform, which may be nil, strips what is not looked at, so
// that a change of it goes unnoticed.
func New(what string, example runtime.Object, s Origin, transform cache.TransformFunc) *Feed {
	f := &Feed{What: what, transform: transform}
	var options []cache.StoreOption
	if transform != nil {
		options = append(options, cache.WithTransformer(transform))
	}
	f.Store = cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc, options...)
	narrow := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector, o.LabelSelector = s.Field, s.Label
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := s.List(ctx, narrow(o))
			f.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := s.Watch(ctx, narrow(o))
			f.note(ctx, err)
			return w, err
		},
	}
	backoff := retry
	f.reflector = cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, s.Client), example, f,
		cache.ReflectorOptions{Name: what, Backoff: &backoff})
	return f
}

// Subscribe calls the function after each change. It must be called before Run.
func (f *Feed) Subscribe(changed func()) { f.changed = append(f.changed, changed) }

// Run follows the API server until the context ends.
func (f *Feed) Run(ctx context.Context) { f.reflector.RunWithContext(ctx) }

// note remembers why nothing can be read, until something can.
func (f *Feed) note(ctx context.Context, err error) {
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

// State reports whether the objects were ever read, and why they cannot be read now.
func (f *Feed) State() (synced bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.synced, f.err
}

// Expect remembers the version that a write of ours returned.
func (f *Feed) Expect(version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected = version
}

// Behind reports whether the feed has yet to see the last write of ours. A new list ends the wait: after an API server's
// data was restored from a backup, the version would never come.
func (f *Feed) Behind() bool {
	f.mu.Lock()
	expected := f.expected
	f.mu.Unlock()
	if expected == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(f.reflector.LastSyncResourceVersion(), expected)
	return err == nil && order < 0
}

func (f *Feed) notify() {
	for _, changed := range f.changed {
		changed()
	}
}

func (f *Feed) read() {
	f.mu.Lock()
	f.synced, f.err = true, nil
	f.mu.Unlock()
}

// Transformer lets the reflector strip objects while it streams a list.
func (f *Feed) Transformer() cache.TransformFunc { return f.transform }

// Add is part of the reflector's store.
func (f *Feed) Add(obj any) error {
	defer f.notify()
	f.read()
	return f.Store.Add(obj)
}

// Update is part of the reflector's store. A change that the transform strips is no change.
func (f *Feed) Update(obj any) error {
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
func (f *Feed) Delete(obj any) error {
	defer f.notify()
	return f.Store.Delete(obj)
}

// Replace is part of the reflector's store.
func (f *Feed) Replace(list []any, version string) error {
	defer f.notify()
	defer f.read()
	f.Expect("")
	return f.Store.Replace(list, version)
}

// One returns the only object of a feed that follows one name.
func One[T any](f *Feed) (object T, found bool) {
	for _, o := range f.List() {
		if typed, ok := o.(T); ok {
			return typed, true
		}
	}
	return object, false
}

// All returns every object.
func All[T any](f *Feed) []T {
	objects := f.List()
	list := make([]T, 0, len(objects))
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			list = append(list, typed)
		}
	}
	return list
}
