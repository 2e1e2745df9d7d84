package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
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

	last    time.Time                    // of the last report
	told    map[string]configmap.Finding // findings that people were told of; nil until a first report
	written string                       // resource version of the last write
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
	if !r.world.settled() || r.world.status.behind(r.written) {
		return reconcile.Result{}, nil
	}
	if wait := r.last.Add(reportEvery).Sub(r.now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	r.last = r.now()
	findings := r.findings()
	r.metrics.found(findings)
	findings = bounded(findings)
	status, _ := one[*corev1.ConfigMap](r.world.status)
	r.tell(ctx, findings, status)
	return reconcile.Result{}, r.store(ctx, findings, status)
}

// findings gathers everything that is wrong.
func (r *reporter) findings() []configmap.Finding {
	expect := configmap.Expect{
		ConfigMap:  r.options.ConfigMap,
		Taint:      corev1.Taint{Key: watcher.Taint, Effect: corev1.TaintEffectNoSchedule},
		APIAddress: r.options.APIAddress,
	}
	if r.world.stray != nil && len(r.world.stray.List()) > 0 {
		expect.Strays = []string{r.options.Namespace}
	}
	outcome := r.keeper.last()
	findings := configmap.Check(r.world.everything(), expect)
	findings = append(findings, outcome.plan.Findings...)
	findings = append(findings, r.world.unreadable()...)
	findings = append(findings, r.syncer.findings()...)
	object := fmt.Sprintf("ConfigMap %s/%s", r.options.CiliumNamespace, r.options.ConfigMap)
	if outcome.failed != nil {
		findings = append(findings, configmap.Finding{ID: configmap.ConfigMapUnwritable, Severity: configmap.Error, Object: object,
			Message: "cannot be written: " + errorText(outcome.failed),
			Fix:     configmap.Fix{Command: "correct what the API server names (a namespace to create, a right to grant, an immutable ConfigMap to delete)"}})
	}
	for _, name := range outcome.rivals {
		findings = append(findings, configmap.Finding{ID: configmap.ConfigMapContested, Severity: configmap.Error, Object: object,
			Message: fmt.Sprintf("is overwritten again and again by manager %q, so it is repaired only every %s", name, r.options.Rival.Backoff),
			Fix: configmap.Fix{Command: fmt.Sprintf("take %s out of what %q manages; kubectl --namespace %s get configmap %s --show-managed-fields --output yaml shows who writes what",
				object, name, r.options.CiliumNamespace, r.options.ConfigMap)}})
	}
	configmap.Sort(findings)
	return findings
}

// tell logs and records each finding once when it appears, and once when it is gone.
func (r *reporter) tell(ctx context.Context, findings []configmap.Finding, status *corev1.ConfigMap) {
	if r.told == nil {
		r.told = map[string]configmap.Finding{}
		for _, f := range storedFindings(status) { // told by an earlier life
			r.told[identity(f)] = f
		}
	}
	about, found := one[*corev1.ConfigMap](r.world.plugin)
	if !found {
		about = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.options.Namespace, Name: watcher.ConfigName(r.options.Release)}}
	}
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

// store writes the status ConfigMap if it says anything else than is so.
func (r *reporter) store(ctx context.Context, findings []configmap.Finding, status *corev1.ConfigMap) error {
	outcome := r.keeper.last()
	if !outcome.ready && status != nil {
		return nil // the keeper's memory must not be lost
	}
	var before []metav1.Condition
	have := map[string]string{}
	if status != nil {
		have = status.Data
		_ = yaml.Unmarshal([]byte(have[conditionsKey]), &before) // broken by hand: written anew
	}
	conditions, err := yaml.Marshal(r.conditions(before, findings, outcome))
	if err != nil {
		return fmt.Errorf("encode the conditions: %w", err)
	}
	list, err := yaml.Marshal(stored(findings))
	if err != nil {
		return fmt.Errorf("encode the findings: %w", err)
	}
	want := map[string]string{conditionsKey: string(conditions), findingsKey: string(list), memoryKey: outcome.memory.String()}
	if status != nil && have[conditionsKey] == want[conditionsKey] && have[findingsKey] == want[findingsKey] && have[memoryKey] == want[memoryKey] {
		return nil
	}
	name := watcher.StatusName(r.options.Release)
	applied, err := r.kube.CoreV1().ConfigMaps(r.options.Namespace).Apply(ctx,
		corev1ac.ConfigMap(name, r.options.Namespace).WithLabels(map[string]string{configmap.ManagedByLabel: configmap.ManagedBy}).WithData(want),
		metav1.ApplyOptions{FieldManager: watcher.FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("apply ConfigMap %s/%s: %w", r.options.Namespace, name, err)
	}
	r.written = applied.ResourceVersion
	return nil
}

func (r *reporter) conditions(before []metav1.Condition, findings []configmap.Finding, o outcome) []metav1.Condition {
	blames := func(belongs func(configmap.Finding) bool) *configmap.Finding {
		i := slices.IndexFunc(findings, func(f configmap.Finding) bool { return f.Severity == configmap.Error && belongs(f) })
		if i < 0 {
			return nil
		}
		return &findings[i]
	}
	isPlugin := func(f configmap.Finding) bool {
		return f.ID == configmap.PluginInvalid || f.ID == configmap.PluginMissing
	}
	isList := func(f configmap.Finding) bool {
		return strings.HasPrefix(string(f.ID), "List") || slices.Contains([]configmap.ID{configmap.ConfigMapForeign,
			configmap.ConfigMapUnwritable, configmap.ConfigMapContested, configmap.ChainingListMissing, configmap.ChainingModeUnknown}, f.ID)
	}
	all := []metav1.Condition{
		condition(PluginValid, blames(isPlugin), "Valid", "plugin.json can be chained"),
		condition(ListCurrent, blames(isList), "Current", "the ConfigMap holds the list that Cilium must read"),
		condition(CiliumReady, blames(func(f configmap.Finding) bool { return !isPlugin(f) && !isList(f) }), "Ready",
			"nothing in Cilium's configuration stands against a chained plugin"),
	}
	if all[1].Status == metav1.ConditionTrue && !o.settled {
		all[1] = metav1.Condition{Type: ListCurrent, Status: metav1.ConditionFalse, Reason: "Pending", Message: "the ConfigMap is not written yet"}
	}
	if o.leaving {
		left := metav1.Condition{Type: Left, Status: metav1.ConditionFalse, Reason: "Leaving", Message: "Cilium's part alone is not written yet"}
		if o.settled || o.plan.LeftAlone {
			left = metav1.Condition{Type: Left, Status: metav1.ConditionTrue, Reason: "Released", Message: "the ConfigMap is not Holdfast's any more"}
		}
		all = append(all, left)
	}
	for i := range all {
		all[i].LastTransitionTime = metav1.NewTime(r.now().UTC().Truncate(time.Second))
		for _, old := range before {
			if old.Type == all[i].Type && old.Status == all[i].Status {
				all[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return all
}

func condition(name string, blame *configmap.Finding, reason, message string) metav1.Condition {
	if blame == nil {
		return metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: reason, Message: message}
	}
	return metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: string(blame.ID),
		Message: fmt.Sprintf("%s: %s; fix: %s", blame.Object, blame.Message, blame.Fix)}
}
