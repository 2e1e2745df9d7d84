package agent

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/http"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// Run keeps the node's pods until the context ends, and leaves everything as it is then.
func Run(ctx context.Context, config *rest.Config, o Options, log logr.Logger) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if err := lock.Supported(); err != nil {
		return fmt.Errorf("agent: %w", err)
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
	clients, err := feed.NewClients(config)
	if err != nil {
		return err
	}
	recorder := mgr.GetEventRecorder(fieldManager)
	a := newAgent(clients, &o, func(about *corev1.Pod, kind, reason, action, note string) {
		recorder.Eventf(about, nil, kind, reason, action, "%s", note)
	})
	a.metrics = newMetrics(ctrlmetrics.Registry, a.state)
	if err := mgr.Add(manager.RunnableFunc(a.run)); err != nil {
		return fmt.Errorf("add the agent: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("renewed", func(*http.Request) error { return a.ready() }); err != nil {
		return fmt.Errorf("add the readiness check: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

func newAgent(c *feed.Clients, o *Options, event func(about *corev1.Pod, kind, reason, action, note string)) *agent {
	a := &agent{
		options: o, release: stampRelease(o.Version), world: newWorld(c, o), sight: &sight{options: o},
		states: adopt.Store{Folder: o.States}, marks: newMarks(c.Kube), teller: newTeller(event), started: time.Now(), toJudge: newBell(), toSweep: newBell(), toSave: newBell(), seed: maphash.MakeSeed(),
		pods: map[string]*held{}, findings: map[string]*finding{}, acted: map[string]bool{},
	}
	for i := range a.lanes {
		a.lanes[i] = newLane(a.started)
	}
	return a
}

// remember reads what this node remembers. While another agent lives, that may still change.
func (a *agent) remember() (err error) {
	a.since, err = openSince(a.options.Memory)
	a.teller.failing("since when namespaces are governed is forgotten: pods that got past the chain may be taken for older ones", err)
	a.policies, err = openPolicies(filepath.Dir(a.options.Socket))
	a.teller.failing("what pods were allowed is forgotten: until the next boot those that run are judged by what no policy allows", err)
	a.cuts, err = openCuts(filepath.Join(a.options.Memory, "cut"))
	return err
}
