package install

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/watcher"
)

const labelTrue, labelFalse = "true", "false"

// wanted is what the Node is to say. Label, taint and condition always go together.
type wanted struct {
	open      bool
	installed bool
	condition *corev1.NodeCondition // without times; nil: none
}

// kept is the Node of an open or a closed node that is kept.
func kept(open bool, reason chaining.Reason, message string) wanted {
	c := &corev1.NodeCondition{Type: watcher.ChainedCondition, Status: corev1.ConditionTrue, Reason: "Chained", Message: message}
	if !open {
		c.Status, c.Reason = corev1.ConditionFalse, string(reason)
	}
	return wanted{open: open, installed: true, condition: c}
}

// gone is the Node of one that was taken out.
func gone() wanted { return wanted{} }

// nodePatch changes labels and taint at once, so that nothing sees one without the other; nil where nothing is to change. A
// patch of a Node cannot carry its status too: the API server drops it (kubernetes, pkg/registry/core/node/strategy.go).
// Taints are one list to the API server, so the patch holds for this version of the Node alone.
func (w wanted) nodePatch(node *corev1.Node) []byte {
	labels := map[string]any{}
	if have, registered := node.Labels[watcher.NodeLabel]; registered && have != w.label() {
		labels[watcher.NodeLabel] = w.label()
	}
	switch have, marked := node.Labels[watcher.InstalledLabel]; {
	case w.installed && have != labelTrue:
		labels[watcher.InstalledLabel] = labelTrue
	case !w.installed && marked:
		labels[watcher.InstalledLabel] = nil
	}
	taints, changed := w.taints(node)
	if len(labels) == 0 && !changed {
		return nil
	}
	metadata := map[string]any{"resourceVersion": node.ResourceVersion, "uid": node.UID}
	patch := map[string]any{"metadata": metadata}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if changed {
		patch["spec"] = map[string]any{"taints": taints}
	}
	return encode(patch)
}

func (w wanted) label() string {
	if w.open {
		return labelTrue
	}
	return labelFalse
}

// taints are those of the Node with ours put in or out; all others stay as they are.
func (w wanted) taints(node *corev1.Node) (taints []corev1.Taint, changed bool) {
	ours := func(t corev1.Taint) bool { return t.Key == watcher.Taint && t.Effect == corev1.TaintEffectNoSchedule }
	tainted := w.installed && !w.open
	if slices.ContainsFunc(node.Spec.Taints, ours) == tainted {
		return nil, false
	}
	if tainted {
		return append(slices.Clone(node.Spec.Taints), corev1.Taint{Key: watcher.Taint, Effect: corev1.TaintEffectNoSchedule}), true
	}
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), ours), true
}

// statusPatch changes the one condition; nil where nothing is to change.
func (w wanted) statusPatch(node *corev1.Node, now time.Time) []byte {
	var have *corev1.NodeCondition
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == watcher.ChainedCondition {
			have = &node.Status.Conditions[i]
		}
	}
	if w.condition == nil {
		if have == nil {
			return nil
		}
		return encode(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"$patch": "delete", "type": watcher.ChainedCondition}}}})
	}
	c := *w.condition
	if have != nil && have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
		return nil
	}
	c.LastHeartbeatTime = metav1.NewTime(now.UTC().Truncate(time.Second))
	c.LastTransitionTime = c.LastHeartbeatTime
	if have != nil && have.Status == c.Status {
		c.LastTransitionTime = have.LastTransitionTime
	}
	return encode(map[string]any{"status": map[string]any{"conditions": []any{c}}})
}

// encode makes JSON of what cannot fail to be.
func encode(patch map[string]any) []byte {
	data, err := json.Marshal(patch)
	if err != nil {
		panic(fmt.Sprintf("encode a patch: %v", err))
	}
	return data
}
