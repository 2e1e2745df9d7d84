package agent

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/agent/contract"
	"github.com/holdfast-cni/holdfast/watcher"
)

// judge looks again at each pod that is kept and was changed since: an update may have broken its contract, or asked to cut it off.
// A pod that the API server no longer has, or has a mirror in the place of, is kept until its sandbox ends. Where no policy is known, each
// is judged by what no policy allows, and by the rest once one is.
func (a *agent) judge(allowed contract.Policy, known bool) {
	if synced, _ := a.world.pods.State(); !synced {
		return
	}
	chained, _ := a.world.node.State()
	for _, p := range a.all() {
		pod := a.world.pod(p.namespace, p.name, p.uid)
		if pod == nil {
			continue
		}
		if pod != p.checked || known && !p.wholly {
			p.checked, p.wholly = pod, known
			if o, broken := verdict(pod, allowed, known); broken {
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

func verdict(pod *corev1.Pod, allowed contract.Policy, known bool) (order, bool) {
	if reason, asked := pod.Annotations[watcher.CutAnnotation]; asked {
		if reason == "" {
			reason = "no reason was given"
		}
		return order{Requested, reason}, true
	}
	broken := contract.Check(pod, allowed)
	if !known {
		broken = slices.DeleteFunc(broken, ofPolicy)
	}
	if len(broken) > 0 {
		return order{ContractBroken, broken[0].String()}, true
	}
	return order{}, false
}

// ofPolicy reports whether a policy may allow what is refused without one.
func ofPolicy(r contract.Refusal) bool {
	return r.Rule == contract.SidecarImage || r.Rule == contract.Seccomp || r.Rule == contract.RuntimeClass
}
