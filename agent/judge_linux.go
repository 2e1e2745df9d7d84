package agent

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/agent/contract"
	"github.com/holdfast-cni/holdfast/watcher"
)

// judge looks again at each pod that is kept and was changed since: an update may have broken its contract, or asked to cut it off.
// A pod that the API server no longer has is kept until its sandbox ends.
func (a *agent) judge(allowed contract.Policy) {
	if synced, _ := a.world.pods.State(); !synced {
		return
	}
	chained, _ := a.world.node.State()
	for _, p := range a.all() {
		pod := a.world.pod(p.namespace, p.name, p.uid)
		if pod == nil {
			continue
		}
		if pod != p.checked {
			p.checked = pod
			if o, broken := verdict(pod, allowed); broken {
				a.order(p, o)
				continue
			}
		}
		if chained && !p.proved {
			p.proved = true
			a.prove(p, pod)
		}
	}
}

func verdict(pod *corev1.Pod, allowed contract.Policy) (order, bool) {
	if reason, asked := pod.Annotations[watcher.CutAnnotation]; asked {
		if reason == "" {
			reason = "no reason was given"
		}
		return order{Requested, reason}, true
	}
	if broken := contract.Check(pod, allowed); len(broken) > 0 {
		return order{ContractBroken, broken[0].String()}, true
	}
	return order{}, false
}
