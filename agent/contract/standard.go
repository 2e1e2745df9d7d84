package contract

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// Standard is the version of the Pod Security Standards that pods are judged by, on clusters of every version. It is pinned, so that
// neither an upgrade of the cluster nor one of a module changes what a running pod is judged by. From 1.35 on the standard lets a
// pod with a user namespace of its own (hostUsers: false) be root inside (KEP-127).
const Standard = "v1.36"

// evaluator is made once: it lists every version's checks.
var evaluator = sync.OnceValues(func() (policy.Evaluator, error) { return policy.NewEvaluator(policy.DefaultChecks(), nil) })

// standard asks the code that the API server's own admission asks.
func (r *refusals) standard(pod *corev1.Pod) {
	e, err := evaluator()
	version, versionErr := api.ParseVersion(Standard)
	if err != nil || versionErr != nil {
		r.add(RestrictedStandard, "spec", "report this as a fault of Holdfast", "the Pod Security Standards can't be evaluated")
		return
	}
	for _, result := range e.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: version}, &pod.ObjectMeta, &pod.Spec) {
		if result.Allowed {
			continue
		}
		reason := result.ForbiddenReason
		if result.ForbiddenDetail != "" {
			reason = fmt.Sprintf("%s (%s)", reason, result.ForbiddenDetail)
		}
		field, fix := place(result.ForbiddenReason)
		r.add(RestrictedStandard, field, fix, "the Restricted Pod Security Standard %s forbids %s", Standard, reason)
	}
}

// place is where what a reason forbids stands, and what to do; the detail of the reason names the container.
func place(reason string) (field, fix string) {
	for _, p := range places {
		if strings.HasPrefix(reason, p.reason) {
			return p.field, p.fix
		}
	}
	return "spec", "change what it names"
}

// places are by the reasons of policy/check_*.go.
var places = []struct{ reason, field, fix string }{
	{"allowPrivilegeEscalation", "spec.*.securityContext.allowPrivilegeEscalation", "set it to false in every container"},
	{"forbidden AppArmor profile", "spec.*.securityContext.appArmorProfile", "use RuntimeDefault or Localhost"},
	{"unrestricted capabilities", "spec.*.securityContext.capabilities", "drop ALL, and add none but NET_BIND_SERVICE"},
	{"host namespaces", "spec.hostNetwork, spec.hostPID, spec.hostIPC", "remove them"},
	{"hostPort", "spec.*.ports.hostPort", "remove it, and use a Service"},
	{"probe or lifecycle host", "spec.*.httpGet.host, spec.*.tcpSocket.host", "remove it"},
	{"privileged", "spec.*.securityContext.privileged", "remove it"},
	{"procMount", "spec.*.securityContext.procMount", "remove it"},
	{"restricted volume types", "spec.volumes", "use configMap, csi, downwardAPI, emptyDir, ephemeral, persistentVolumeClaim, projected or secret"},
	{"runAsNonRoot", "spec.*.securityContext.runAsNonRoot", "set it to true for the pod"},
	{"runAsUser=0", "spec.*.securityContext.runAsUser", "choose another user than 0, or set spec.hostUsers to false"},
	{"seLinuxOptions", "spec.*.securityContext.seLinuxOptions", "remove what it names"},
	{"seccompProfile", "spec.*.securityContext.seccompProfile", "set type RuntimeDefault for the pod"},
	{"forbidden sysctls", "spec.securityContext.sysctls", "remove what it names"},
	{"hostProcess", "spec.*.securityContext.windowsOptions.hostProcess", "remove it"},
}
