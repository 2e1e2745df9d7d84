package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
)

// findings gathers everything that is wrong. While something that decides was never read, nothing is said of what it would
// decide: what cannot be read is not what is not there.
func (r *reporter) findings(o outcome) []configmap.Finding {
	findings := append([]configmap.Finding{}, r.world.unreadable()...)
	if o.ready {
		expect := configmap.Expect{
			ConfigMap:  r.options.ConfigMap,
			Taint:      corev1.Taint{Key: watcher.Taint, Effect: corev1.TaintEffectNoSchedule},
			APIAddress: r.options.APIAddress,
		}
		if r.world.stray != nil && len(r.world.stray.List()) > 0 {
			expect.Strays = []string{r.options.Namespace}
		}
		findings = append(findings, configmap.Check(r.world.everything(), expect)...)
		findings = append(findings, o.plan.Findings...)
	}
	findings = append(findings, r.syncer.findings()...)
	findings = append(findings, r.refused(o)...)
	configmap.Sort(findings)
	return findings
}

// refused says why the list is not written, or not at once.
func (r *reporter) refused(o outcome) []configmap.Finding {
	var findings []configmap.Finding
	object := fmt.Sprintf("ConfigMap %s/%s", r.options.CiliumNamespace, r.options.ConfigMap)
	if o.failed != nil {
		findings = append(findings, configmap.Finding{ID: configmap.ConfigMapUnwritable, Severity: configmap.Error, Object: object,
			Message: "cannot be written: " + errorText(o.failed),
			Fix:     configmap.Fix{Command: "correct what the API server names (a namespace to create, a right to grant, an immutable ConfigMap to delete)"}})
	}
	for _, name := range o.rivals {
		what, who := "overwritten", fmt.Sprintf("manager %q", name)
		if name == deleted {
			what, who = "deleted", "somebody whom the API server does not name"
		}
		findings = append(findings, configmap.Finding{ID: configmap.ConfigMapContested, Severity: configmap.Error, Object: object,
			Message: fmt.Sprintf("is %s again and again by %s, so it is repaired only every %s", what, who, r.options.Rival.Backoff),
			Fix: configmap.Fix{Command: fmt.Sprintf("take it out of what that manages (a GitOps application, a pruning job); kubectl --namespace %s get configmap %s "+
				"--show-managed-fields --output yaml shows who writes what", r.options.CiliumNamespace, r.options.ConfigMap)}})
	}
	return findings
}
