package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// reporter tells people and programs what is not as it should be: Events and log lines on change, metrics, and the status
// ConfigMap, which is also where the keeper's memory lies.
type reporter struct {
	options *Options
	kube    kubernetes.Interface
	world   *world
	keeper  *keeper
	syncer  *syncer
	metrics *metrics
	event   func(about *corev1.ConfigMap, kind, reason, note string)
	now     func() time.Time

	last time.Time                    // of the last report that was stored
	told map[string]configmap.Finding // findings that people were told of; nil until a first report
}

// reportEvery bounds how often a large cluster's nodes are looked through.
const reportEvery = time.Second

// Types of condition in the status ConfigMap.
const (
	// PluginValid: plugin.json can be chained.
	PluginValid = "PluginValid"
	// ListCurrent: the ConfigMap Cilium reads holds the list it must.
	ListCurrent = "ListCurrent"
	// CiliumReady: nothing in Cilium's configuration stands against a chained plugin.
	CiliumReady = "CiliumReady"
	// Left: Holdfast has let go of the ConfigMap, which holds Cilium's part alone.
	Left = "Left"
)

// Reconcile reports once.
func (r *reporter) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	outcome := r.keeper.last()
	if !r.world.settled() || r.world.status.Behind() || !outcome.ready && outcome.unread == nil {
		return reconcile.Result{}, nil // an event is still to come
	}
	if wait := r.last.Add(reportEvery).Sub(r.now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	findings := r.findings(outcome)
	r.metrics.found(findings)
	findings = bounded(findings)
	status, _ := feed.One[*corev1.ConfigMap](r.world.status)
	r.tell(ctx, findings, status)
	if err := r.store(ctx, findings, status, outcome); err != nil {
		return reconcile.Result{}, err
	}
	r.last = r.now()
	return reconcile.Result{}, nil
}

// tell logs and records each finding once when it appears, and once when it is gone.
func (r *reporter) tell(ctx context.Context, findings []configmap.Finding, status *corev1.ConfigMap) {
	if r.told == nil {
		r.told = map[string]configmap.Finding{}
		for _, f := range storedFindings(status) { // told by an earlier life
			r.told[identity(f)] = f
		}
	}
	about := r.about()
	now := map[string]configmap.Finding{}
	for _, f := range findings {
		now[identity(f)] = f
		if _, known := r.told[identity(f)]; known {
			continue
		}
		level, kind := slog.LevelWarn, corev1.EventTypeWarning
		if f.Severity == configmap.Info {
			level, kind = slog.LevelInfo, corev1.EventTypeNormal
		}
		slog.Log(ctx, level, "finding", "id", f.ID, "severity", f.Severity, "object", f.Object, "nodes", len(f.Nodes), "reason", f.Message, "fix", f.Fix.String())
		r.event(about, kind, string(f.ID), f.String())
	}
	for key, f := range r.told {
		if _, still := now[key]; !still {
			slog.InfoContext(ctx, "finding gone", "id", f.ID, "object", f.Object)
			r.event(about, corev1.EventTypeNormal, string(f.ID), "no longer so: "+f.Object+": "+f.Message)
		}
	}
	r.told = now
}

// identity is what makes two findings the same fact. The nodes that it holds on come and go.
func identity(f configmap.Finding) string {
	return string(f.ID) + "\x00" + f.Object + "\x00" + f.Message
}

// store writes the status ConfigMap if it says anything else than is so. It goes with the ConfigMap that the chart made.
func (r *reporter) store(ctx context.Context, findings []configmap.Finding, status *corev1.ConfigMap, outcome outcome) error {
	var before []metav1.Condition
	have := map[string]string{}
	if status != nil {
		have = status.Data
		_ = yaml.Unmarshal([]byte(have[conditionsKey]), &before) // broken by hand: written anew
	}
	remembered := outcome.memory.String()
	if !outcome.ready {
		remembered = have[memoryKey] // nothing was looked at, and nothing is to be forgotten
	}
	conditions, err := yaml.Marshal(r.conditions(before, findings, outcome))
	if err != nil {
		return fmt.Errorf("encode the conditions: %w", err)
	}
	list, err := yaml.Marshal(stored(findings))
	if err != nil {
		return fmt.Errorf("encode the findings: %w", err)
	}
	want := map[string]string{conditionsKey: string(conditions), findingsKey: string(list), memoryKey: remembered}
	if status != nil && have[conditionsKey] == want[conditionsKey] && have[findingsKey] == want[findingsKey] && have[memoryKey] == want[memoryKey] {
		return nil
	}
	name := watcher.StatusName(r.options.Release)
	object := corev1ac.ConfigMap(name, r.options.Namespace).
		WithLabels(map[string]string{configmap.ManagedByLabel: configmap.ManagedBy}).WithData(want)
	if own, found := feed.One[*corev1.ConfigMap](r.world.plugin); found {
		object.WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName(own.Name).WithUID(own.UID))
	}
	applied, err := r.kube.CoreV1().ConfigMaps(r.options.Namespace).Apply(ctx, object,
		metav1.ApplyOptions{FieldManager: watcher.FieldManager, Force: true})
	if err != nil {
		r.event(r.about(), corev1.EventTypeWarning, "StatusUnwritable", fmt.Sprintf("ConfigMap %s cannot be written, so what it says is old: %s; "+
			"correct what the API server names, or delete it: it is made anew", name, errorText(err)))
		return fmt.Errorf("apply ConfigMap %s/%s: %w", r.options.Namespace, name, err)
	}
	r.world.status.Expect(applied.ResourceVersion)
	return nil
}

// about is the object that Events are about: the ConfigMap that the chart made.
func (r *reporter) about() *corev1.ConfigMap {
	if own, found := feed.One[*corev1.ConfigMap](r.world.plugin); found {
		return own
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: watcher.ConfigName(r.options.Release)}}
}
