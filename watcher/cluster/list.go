package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// keeper owns the ConfigMap that Cilium reads: it makes it what the plan wants, whoever changed it.
type keeper struct {
	options *Options
	kube    kubernetes.Interface
	world   *world
	metrics *metrics
	event   func(about *corev1.ConfigMap, kind, reason, note string)
	now     func() time.Time
	rivals  *rivals

	memory *memory // nil until the status ConfigMap was read

	mu     sync.Mutex
	report outcome
	done   func() // called after each change of the outcome
}

// outcome is what the reporter needs to know of the keeper.
type outcome struct {
	ready  bool       // a plan was made
	unread *feed.Feed // why none was
	plan   configmap.Plan
	memory memory
	// failed is the API server's refusal of the last write, rivals are the managers that keep writing.
	failed error
	rivals []string
	// settled reports that the ConfigMap is what the plan wants.
	settled bool
	leaving bool
}

// Reconcile makes one plan and carries it out.
func (k *keeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if k.world.list.Behind() {
		return reconcile.Result{}, nil // the event is still to come
	}
	k.world.cilium.Follow()
	if unread := k.world.unread(); unread != nil {
		k.tell(outcome{unread: unread})
		return reconcile.Result{}, nil
	}
	request := k.request()
	plan := configmap.Make(request)
	o := outcome{ready: true, plan: plan, leaving: request.Leaving}
	var result reconcile.Result
	var err error
	switch {
	case plan.Want == nil:
	case plan.Cause == configmap.Unchanged:
		*k.memory = remember(plan, string(request.Existing.UID))
		o.settled = true
	default:
		var delay time.Duration
		if delay, err = k.write(ctx, request.Existing, plan); err == nil && delay == 0 {
			o.settled = true
		}
		o.failed, result.RequeueAfter = err, delay
	}
	if request.Leaving && (o.settled || plan.LeftAlone) {
		*k.memory = memory{} // what comes after an uninstall starts anew
	}
	o.memory, o.rivals = *k.memory, k.rivals.all(k.now())
	if len(o.rivals) > 0 && result.RequeueAfter == 0 {
		result.RequeueAfter = k.options.Rival.Backoff
	}
	k.tell(o)
	return result, err
}

// tell hands the outcome to the reporter.
func (k *keeper) tell(o outcome) {
	k.mu.Lock()
	k.report = o
	k.mu.Unlock()
	k.metrics.listCurrent(o.settled)
	k.done()
}

// last is the outcome of the latest plan.
func (k *keeper) last() outcome {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.report
}

// request gathers what is known.
func (k *keeper) request() configmap.Request {
	if k.memory == nil {
		status, _ := feed.One[*corev1.ConfigMap](k.world.status)
		m := recall(status)
		k.memory = &m
	}
	r := configmap.Request{
		Cilium: k.world.cilium.Seen(), Name: k.options.ConfigMap, Release: k.options.release(), Adopt: k.options.Adopt,
		PluginObject: fmt.Sprintf("ConfigMap %s/%s", k.options.Namespace, watcher.ConfigName(k.options.Release)),
	}
	r.Existing, _ = feed.One[*corev1.ConfigMap](k.world.list)
	k.memory.into(&r)
	own, found := feed.One[*corev1.ConfigMap](k.world.plugin)
	if !found {
		return r
	}
	r.Leaving = watcher.Leaving(own.Data)
	if text, found := own.Data[watcher.PluginKey]; found {
		entry, err := configmap.ParsePlugin([]byte(text), k.options.CheckPlugin, k.options.reserved()...)
		if r.PluginErr = err; err == nil {
			r.Plugin = &entry
		}
	}
	return r
}

// write applies the plan, or says how long a repair must wait because somebody keeps overwriting it.
func (k *keeper) write(ctx context.Context, existing *corev1.ConfigMap, plan configmap.Plan) (time.Duration, error) {
	rival := ""
	if plan.Cause == configmap.Repaired {
		rival = deleted
		if existing != nil {
			rival = configmap.LastManager(existing.ManagedFields, watcher.FieldManager)
		}
		if delay := k.rivals.wait(rival, k.now()); delay > 0 {
			return delay, nil
		}
	}
	want := plan.Want
	applied, err := k.kube.CoreV1().ConfigMaps(want.Namespace).Apply(ctx,
		corev1ac.ConfigMap(want.Name, want.Namespace).WithLabels(want.Labels).WithAnnotations(want.Annotations).WithData(want.Data),
		metav1.ApplyOptions{FieldManager: watcher.FieldManager, Force: true})
	if err != nil {
		k.metrics.listWritten("failed")
		return 0, fmt.Errorf("apply ConfigMap %s/%s: %w", want.Namespace, want.Name, err)
	}
	k.world.list.Expect(applied.ResourceVersion)
	*k.memory = remember(plan, string(applied.UID))
	if rival != "" {
		k.rivals.repaired(rival, k.now())
	}
	k.metrics.listWritten(string(plan.Cause))
	note := fmt.Sprintf("the list Cilium reads was %s", plan.Cause)
	switch rival {
	case "":
	case deleted:
		note += "; somebody had deleted it"
	default:
		note += fmt.Sprintf("; %s had changed it", rival)
	}
	slog.InfoContext(ctx, "list written", "cause", plan.Cause, "digest", want.Annotations[configmap.DigestAnnotation], "rival", rival)
	k.event(applied, corev1.EventTypeNormal, "List"+title(string(plan.Cause)), note)
	return 0, nil
}

func title(word string) string {
	if word == "" {
		return ""
	}
	return string(word[0]-'a'+'A') + word[1:]
}
