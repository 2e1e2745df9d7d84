package configmap

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// operator reports an operator that would stay Pending if every node were closed: the agents wait for it, and nothing starts.
func (k *checker) operator() {
	if k.cilium.Operator == nil || k.expect.Taint.Key == "" {
		return
	}
	have := k.cilium.Operator.Spec.Template.Spec.Tolerations
	if tolerates(have, k.expect.Taint) {
		return
	}
	want := append(slices.Clone(have), corev1.Toleration{Key: k.expect.Taint.Key, Operator: corev1.TolerationOpExists})
	// Helm replaces a list as a whole, so the fix names the tolerations there already.
	list, _ := json.Marshal(want)
	fix := k.fix.values()
	fix.Value = "operator.tolerations with key " + k.expect.Taint.Key
	fix.Command += fmt.Sprintf("--set-json %s", quote("operator.tolerations="+string(list)))
	k.add(OperatorIntolerant, Error, fmt.Sprintf("Deployment %s/%s", k.cilium.Operator.Namespace, k.cilium.Operator.Name),
		fmt.Sprintf("does not tolerate %s:%s: where every node is closed it stays Pending, and the agents wait for it",
			k.expect.Taint.Key, k.expect.Taint.Effect), fix)
}

// tolerates follows k8s.io/api/core/v1 Toleration: an empty key with Exists tolerates all, an empty effect every effect.
func tolerates(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			return false
		}
		if t.Operator == corev1.TolerationOpExists {
			return true
		}
		return t.Key != "" && t.Value == taint.Value
	})
}

// agents reports agents that started before their configuration last changed: it is intent there, not state.
func (k *checker) agents() {
	var changed time.Time
	var what string
	for _, s := range k.sources.Order {
		if s.Kind != SourceConfigMap {
			continue
		}
		if cm := k.cilium.Config(s.Namespace, s.Name); cm != nil {
			if at := LastChange(cm.CreationTimestamp.Time, cm.ManagedFields); at.After(changed) {
				changed, what = at, s.String()
			}
		}
	}
	var stale []string
	for _, agent := range k.cilium.Agents {
		if !agent.Started.IsZero() && agent.Started.Before(changed) {
			stale = append(stale, agent.Node)
		}
	}
	if len(stale) == 0 {
		return
	}
	slices.Sort(stale)
	k.found = append(k.found, Finding{ID: AgentOutdated, Severity: Warning, Object: what, Nodes: stale,
		Message: fmt.Sprintf("changed at %s, after agents had started; an agent reads its settings at start, so these run with "+
			"older ones", changed.UTC().Format(time.RFC3339)),
		Fix: Fix{Command: k.fix.restart()}})
}
