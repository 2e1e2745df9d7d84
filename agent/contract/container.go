package contract

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// container is one of any kind, with its path in the pod.
type container struct {
	*corev1.Container
	path    string
	sidecar bool
	// target is whose processes an ephemeral container shares.
	target string
}

// containers lists all: init, main and ephemeral. Where there are init containers the first is taken for the sidecar; if it is
// none, the pod is refused for that.
func containers(spec *corev1.PodSpec) []container {
	var all []container
	for i := range spec.InitContainers {
		all = append(all, container{Container: &spec.InitContainers[i], path: fmt.Sprintf("spec.initContainers[%d]", i), sidecar: i == 0})
	}
	for i := range spec.Containers {
		all = append(all, container{Container: &spec.Containers[i], path: fmt.Sprintf("spec.containers[%d]", i)})
	}
	for i := range spec.EphemeralContainers {
		e := &spec.EphemeralContainers[i]
		all = append(all, container{Container: (*corev1.Container)(&e.EphemeralContainerCommon), path: fmt.Sprintf("spec.ephemeralContainers[%d]", i), target: e.TargetContainerName})
	}
	return all
}

// user, group and seccomp are what holds for the container: its own, or else the pod's.
func (c container) user(spec *corev1.PodSpec) *int64 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		return c.SecurityContext.RunAsUser
	}
	if spec.SecurityContext != nil {
		return spec.SecurityContext.RunAsUser
	}
	return nil
}

func (c container) group(spec *corev1.PodSpec) *int64 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsGroup != nil {
		return c.SecurityContext.RunAsGroup
	}
	if spec.SecurityContext != nil {
		return spec.SecurityContext.RunAsGroup
	}
	return nil
}

func (c container) seccomp(spec *corev1.PodSpec) *corev1.SeccompProfile {
	if c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil {
		return c.SecurityContext.SeccompProfile
	}
	if spec.SecurityContext != nil {
		return spec.SecurityContext.SeccompProfile
	}
	return nil
}

// portOf is the number that a probe's port stands for, as the kubelet finds it: a name is that of the container's first port so called,
// or else a number that is written as text (pkg/probe: ResolveContainerPort); 0 for none.
func (c container) portOf(port intstr.IntOrString) int {
	if port.Type == intstr.Int {
		return port.IntValue()
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return int(p.ContainerPort)
		}
	}
	number, err := strconv.Atoi(port.StrVal)
	if err != nil {
		return 0
	}
	return number
}

// is compares as the kernel does, in 32 bits: a static pod's numbers are checked by nobody else.
func is(id *int64, wanted uint32) bool { return id != nil && uint32(*id) == wanted }
