package install

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-cni/holdfast/watcher/feed"
)

var errNotReady = errors.New("the node was not looked at yet")

// maxNote is the API server's limit for an Event's text (pkg/apis/core/validation: NoteLengthLimit).
const maxNote = 1024

// Run keeps the node until the context ends, and leaves everything as it is then.
func Run(ctx context.Context, config *rest.Config, o Options, log logr.Logger) error {
	if err := o.Validate(); err != nil {
		return err
	}
	mgr, err := manager.New(config, manager.Options{
		Logger:                  log,
		Metrics:                 metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:  o.HealthAddress,
		GracefulShutdownTimeout: ptr.To(5 * time.Second),
	})
	if err != nil {
		return fmt.Errorf("make a manager: %w", err)
	}
	c, err := feed.NewClients(config)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(o.HostRoot)
	if err != nil {
		return fmt.Errorf("--host-root: %w", err)
	}
	defer root.Close()
	executable, err := newBinary(o.HostRoot, o.Binary)
	if err != nil {
		return err
	}
	recorder := mgr.GetEventRecorder(fieldManager)
	tell := newTeller(func(about *corev1.Node, kind, reason, action, note string) {
		if len(note) > maxNote {
			note = note[:maxNote-3] + "..."
		}
		recorder.Eventf(about, nil, kind, reason, action, "%s", note)
	})
	w, m := newWorld(c, &o), newMetrics(ctrlmetrics.Registry)
	l := &loop{options: &o, world: w, fsys: root.FS(), binary: executable, metrics: m, teller: tell,
		writer: &nodeWriter{kube: c.Kube, feed: w.node, name: o.Node, metrics: m},
		woken:  make(chan struct{}, 1), limit: rate.NewLimiter(looks.every, looks.burst)}
	l.watch = newWatch(l.wake)
	var looked atomic.Bool
	l.looked = func() { looked.Store(true) }
	run := manager.RunnableFunc(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		wait := w.start(ctx, l.wake)
		err := l.run(ctx)
		cancel()
		wait()
		return err
	})
	if err := mgr.Add(run); err != nil {
		return fmt.Errorf("add the loop: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	ready := func(*http.Request) error {
		if !looked.Load() {
			return errNotReady
		}
		return nil
	}
	if err := mgr.AddReadyzCheck("looked", ready); err != nil {
		return fmt.Errorf("add the readiness check: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("install-cni: %w", err)
	}
	return nil
}
