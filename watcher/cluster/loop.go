package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// resync backs every watch.
const resync = 5 * time.Minute

// loop is a controller with one request: any event means a look at the whole state, and events while it looks are one.
type loop struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// addLoop makes a loop of the manager's, run by the leader alone. A failed look is tried again after 50 ms to 10 s.
func addLoop(mgr manager.Manager, name string, r reconcile.Reconciler) (*loop, error) {
	l := &loop{}
	backed := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if err == nil && result.RequeueAfter == 0 {
			result.RequeueAfter = resync
		}
		return result, err
	})
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler:         backed,
		RateLimiter:        workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, 10*time.Second),
		SkipNameValidation: ptr.To(true), // two watchers may share a process
	})
	if err != nil {
		return nil, fmt.Errorf("make loop %q: %w", name, err)
	}
	err = c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		l.mu.Lock()
		l.queue = queue
		l.mu.Unlock()
		queue.Add(reconcile.Request{})
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("start loop %q: %w", name, err)
	}
	return l, nil
}

// wake asks for a look. Before the loop runs there is no need: it starts with one.
func (l *loop) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue != nil {
		l.queue.Add(reconcile.Request{})
	}
}
