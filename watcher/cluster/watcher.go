package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
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

	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

var errNotReady = errors.New("not everything was read yet")

// Run watches and acts until the context ends. Of several watchers of one release, one acts and the others wait.
func Run(ctx context.Context, config *rest.Config, o Options, log logr.Logger) error {
	if err := o.Validate(); err != nil {
		return err
	}
	mgr, err := manager.New(config, manager.Options{
		Logger:                        log,
		LeaderElection:                true,
		LeaderElectionID:              watcher.ConfigName(o.Release) + "-watcher",
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.HealthAddress,
		GracefulShutdownTimeout:       ptr.To(5 * time.Second),
	})
	if err != nil {
		return fmt.Errorf("make a manager: %w", err)
	}
	c, err := feed.NewClients(config)
	if err != nil {
		return err
	}
	w := newWorld(c, &o)
	if err := add(mgr, w, &o); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// add wires the three loops: what is seen of the cluster wakes them, and each tells the next.
func add(mgr manager.Manager, w *world, o *Options) error {
	m := newMetrics()
	recorder := mgr.GetEventRecorder(watcher.FieldManager)
	event := func(about *corev1.ConfigMap, kind, reason, note string) {
		if len(note) > 1024 { // the API server's limit (pkg/apis/core/validation: NoteLengthLimit)
			note = note[:1021] + "..."
		}
		// The recorder takes Events that differ in their note alone for one and sends the first of them
		// (client-go tools/events: getKey), so the action tells them apart.
		recorder.Eventf(about, nil, kind, reason, fmt.Sprintf("Watch-%08x", crc32.ChecksumIEEE([]byte(note))), "%s", note)
	}
	k := &keeper{options: o, kube: w.clients.Kube, world: w, metrics: m, event: event, now: time.Now, rivals: newRivals(o.Rival)}
	s := &syncer{options: o, kube: w.clients.Kube, world: w, metrics: m, limit: rate.NewLimiter(50, 50)}
	r := &reporter{options: o, kube: w.clients.Kube, world: w, keeper: k, syncer: s, metrics: m, event: event, now: time.Now}
	lists, err := addLoop(mgr, "list", k)
	if err != nil {
		return err
	}
	syncs, err := addLoop(mgr, "fast-sync", s)
	if err != nil {
		return err
	}
	reports, err := addLoop(mgr, "report", r)
	if err != nil {
		return err
	}
	k.done, s.done = reports.wake, reports.wake
	wakeAll := func() { lists.wake(); syncs.wake(); reports.wake() }
	run := manager.RunnableFunc(func(ctx context.Context) error {
		m.export(ctrlmetrics.Registry)
		wait := w.start(ctx, wakeAll)
		<-ctx.Done()
		wait()
		return nil
	})
	if err := mgr.Add(run); err != nil {
		return fmt.Errorf("add the watches: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	ready := func(*http.Request) error {
		select {
		case <-mgr.Elected():
			if w.unread() != nil {
				return fmt.Errorf("%w: %s", errNotReady, w.unread().What)
			}
		default: // another watcher acts; this one is ready to follow it
		}
		return nil
	}
	if err := mgr.AddReadyzCheck("read", ready); err != nil {
		return fmt.Errorf("add the readiness check: %w", err)
	}
	return nil
}
