package feed

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatal(what)
}

// After the API server's data was restored from a backup, the version of our last write never comes.
func TestFeedStopsWaitingForAWriteThatAListNoLongerHas(t *testing.T) {
	f := New("ConfigMap a/b", &corev1.ConfigMap{}, Origin{
		List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}}, nil
		},
		Watch: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // no streaming of lists here
			}
			return watch.NewFake(), nil
		},
	}, nil)
	go f.Run(t.Context())
	eventually(t, "the feed is never synced", func() bool { synced, _ := f.State(); return synced })
	f.Expect("100")
	eventually(t, "a write that was not seen is not waited for", f.Behind)
	if err := f.Replace(nil, "6"); err != nil {
		t.Fatal(err)
	}
	if f.Behind() {
		t.Error("a new list does not end the wait")
	}
}

// A resource that may not be read is another thing than one that is not there, and both are looked for again.
func TestFeedTellsWhyItCannotRead(t *testing.T) {
	answers := make(chan error, 1)
	f := New("ConfigMap a/b", &corev1.ConfigMap{}, Origin{
		List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			if err := <-answers; err != nil {
				return nil, err
			}
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}}, nil
		},
		Watch: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
			}
			return watch.NewFake(), nil
		},
	}, nil)
	go f.Run(t.Context())
	state := func(synced bool, is func(error) bool) func() bool {
		return func() bool { s, err := f.State(); return s == synced && is(err) }
	}
	answers <- apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "b", nil)
	eventually(t, "forbidden is not told", state(false, apierrors.IsForbidden))
	answers <- apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "b")
	eventually(t, "not found is not told", state(false, apierrors.IsNotFound))
	answers <- nil
	eventually(t, "it does not look again", state(true, func(err error) bool { return err == nil }))
}
