package contract

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Largest is how many bytes may be left of what Check reads of a pod, as the API server encodes it. A usual pod has one or two thousand.
	Largest = 64 << 10
	// longest is how many bytes are kept of an annotation.
	longest = 4 << 10
	// oversize marks what is left of a pod that is larger. Who may write a pod's status harms that pod alone by it.
	oversize = "holdfast.dev/oversize"
	// untrusted has containerd take the runtime that its configuration calls untrusted, where it has one, for a pod that names no
	// runtime class (containerd v2.4.2, internal/cri/config: GetSandboxRuntime).
	untrusted = "io.kubernetes.cri.untrusted-workload"
)

// Judged returns a copy with what Check reads, and some other annotations: not what containers are told to do. Of a pod in which even
// that is more than Largest only the fact is left, which Check refuses, so that nobody fills an agent's memory with pods. Judged of what
// it returns is the same.
func Judged(pod *corev1.Pod, annotations ...string) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}}
	keep := func(read func(key string) bool) {
		for key, value := range pod.Annotations {
			if read(key) {
				metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value[:min(len(value), longest)])
			}
		}
	}
	keep(func(key string) bool { return slices.Contains(annotations, key) })
	if pod.Status.Message == oversize {
		out.Status.Message = oversize
		return out
	}
	small := out.DeepCopy()
	keep(func(key string) bool {
		return key == untrusted || strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
	})
	s := pod.Spec.DeepCopy()
	out.Spec = corev1.PodSpec{
		NodeName: s.NodeName, OS: s.OS, RuntimeClassName: s.RuntimeClassName, ShareProcessNamespace: s.ShareProcessNamespace, HostUsers: s.HostUsers,
		HostNetwork: s.HostNetwork, HostPID: s.HostPID, HostIPC: s.HostIPC, ResourceClaims: s.ResourceClaims, Resources: s.Resources,
		SecurityContext: s.SecurityContext, Volumes: s.Volumes,
		InitContainers: s.InitContainers, Containers: s.Containers, EphemeralContainers: s.EphemeralContainers,
	}
	for _, c := range containers(&out.Spec) {
		slim(c)
	}
	if out.Size() > Largest {
		small.Status.Message = oversize
		return small
	}
	return out
}

// slim leaves of a container what is checked. Where it counts that something is there, that is all that is left of it.
func slim(c container) {
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if probe != nil {
			slimHandler(probe.Exec, probe.HTTPGet)
		}
	}
	if c.Lifecycle != nil {
		for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if handler != nil {
				slimHandler(handler.Exec, handler.HTTPGet)
			}
		}
	}
	c.Args, c.WorkingDir = nil, ""
	if !c.sidecar {
		c.Command, c.Env, c.EnvFrom, c.VolumeMounts, c.TerminationMessagePath = nil, nil, nil, nil, ""
		return
	}
	for i := range c.Env {
		c.Env[i] = corev1.EnvVar{Name: c.Env[i].Name}
	}
}

func slimHandler(exec *corev1.ExecAction, get *corev1.HTTPGetAction) {
	if exec != nil {
		exec.Command = nil
	}
	if get != nil {
		get.Path, get.HTTPHeaders = "", nil
	}
}
