package contract

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/lock"
)

// Policy is what a node allows of pods: parts of plugin.json.
type Policy struct {
	// Images are the sidecars that count as genuine, by digest: sha256:<64 hexadecimal digits>.
	Images []string
	// SeccompProfiles are the Localhost profiles allowed beside RuntimeDefault.
	SeccompProfiles []string
	// RuntimeClasses are those allowed beside the runtime's default, which is named by none.
	RuntimeClasses []string
}

// Check reports everything in which the pod breaks the contract, in the same order for the same pod; nothing means that it holds.
// Ephemeral containers count, so that it is to be asked again whenever the pod is updated.
func Check(pod *corev1.Pod, p Policy) []Refusal {
	if pod == nil {
		return []Refusal{{SidecarMissing, "pod", "there is none", "report this as a fault of Holdfast"}}
	}
	if pod = Judged(pod); pod.Status.Message == oversize {
		return []Refusal{{Oversize, "pod", fmt.Sprintf("is too large to be judged: more than %d bytes of volumes, ports and the like", Largest), "make it smaller"}}
	}
	var r refusals
	r.standard(pod)
	r.pod(&pod.Spec, p)
	if pod.Annotations[untrusted] == "true" {
		r.add(RuntimeClass, "metadata.annotations["+untrusted+"]", "remove it", "has the runtime choose another than its default, in which the lock wasn't proved")
	}
	r.sidecar(&pod.Spec, p)
	for _, c := range containers(&pod.Spec) {
		r.container(&pod.Spec, c, p)
	}
	return r
}

func (r *refusals) pod(spec *corev1.PodSpec, p Policy) {
	if spec.OS != nil && spec.OS.Name != corev1.Linux {
		r.add(OperatingSystem, "spec.os.name", "remove it, or write linux", "is %q, for which the Restricted standard asks less", spec.OS.Name)
	}
	if class := spec.RuntimeClassName; class != nil && *class != "" && !slices.Contains(p.RuntimeClasses, *class) {
		r.add(RuntimeClass, "spec.runtimeClassName", "remove it, or list it in plugin.json's runtimeClasses",
			"%q isn't allowed: the lock wasn't proved in that runtime", *class)
	}
	if shared := spec.ShareProcessNamespace; shared != nil && *shared {
		r.add(SharedProcesses, "spec.shareProcessNamespace", "remove it", "is true, so that containers see and signal each other's processes")
	}
	if len(spec.ResourceClaims) > 0 {
		r.add(ResourceClaims, "spec.resourceClaims", "remove them", "a claim may bring a device into the pod, past its lock")
	}
	r.resources("spec.resources", spec.Resources)
	r.podGroups(spec.SecurityContext)
}

// podGroups looks at the groups that every container of the pod gets.
func (r *refusals) podGroups(context *corev1.PodSecurityContext) {
	if context == nil {
		return
	}
	for i, group := range context.SupplementalGroups {
		if is(&group, lock.SidecarGID) {
			r.add(SidecarsGroup, fmt.Sprintf("spec.securityContext.supplementalGroups[%d]", i), "choose another group",
				"%d is the sidecar's own group, and every container would get it", lock.SidecarGID)
		}
	}
	if is(context.FSGroup, lock.SidecarGID) {
		r.add(SidecarsGroup, "spec.securityContext.fsGroup", "choose another group",
			"%d is the sidecar's own group, and every container would get it", lock.SidecarGID)
	}
}

// container checks what holds for every container alike, and that none but the sidecar has its identity.
func (r *refusals) container(spec *corev1.PodSpec, c container, p Policy) {
	context := c.path + ".securityContext"
	user, group := c.user(spec), c.group(spec)
	if user == nil {
		r.add(UserMissing, context+".runAsUser", "write the user that container "+c.Name+" runs as", "is missing here and for the pod, so that the image would choose")
	}
	if !c.sidecar && is(user, lock.SidecarUID) {
		r.add(SidecarsUser, context+".runAsUser", "choose another user", "%d is the sidecar's own, and container %s isn't the sidecar", lock.SidecarUID, c.Name)
	}
	if !c.sidecar && is(group, lock.SidecarGID) {
		r.add(SidecarsGroup, context+".runAsGroup", "choose another group", "%d is the sidecar's own, and container %s isn't the sidecar", lock.SidecarGID, c.Name)
	}
	if profile := c.seccomp(spec); profile != nil && profile.Type == corev1.SeccompProfileTypeLocalhost {
		if name := profile.LocalhostProfile; name == nil || !slices.Contains(p.SeccompProfiles, *name) {
			r.add(Seccomp, context+".seccompProfile", "use RuntimeDefault, or list the profile in plugin.json's seccompProfiles",
				"container %s has a Localhost profile that isn't listed, and may open sockets that pass no rule (AF_VSOCK)", c.Name)
		}
	}
	if len(c.VolumeDevices) > 0 {
		r.add(Devices, c.path+".volumeDevices", "mount the volume as a file system", "container %s gets a block device", c.Name)
	}
	r.resources(c.path+".resources", &c.Resources)
	if c.target != "" && len(spec.InitContainers) > 0 && c.target == spec.InitContainers[0].Name {
		r.add(SharedProcesses, c.path+".targetContainerName", "target another container", "container %s would share the sidecar's processes", c.Name)
	}
}

// resources refuses what device plugins and resource claims bring into a container: devices aren't bound by the pod's network.
func (r *refusals) resources(path string, resources *corev1.ResourceRequirements) {
	if resources == nil {
		return
	}
	if len(resources.Claims) > 0 {
		r.add(ResourceClaims, path+".claims", "remove them", "a claim may bring a device into the pod, past its lock")
	}
	for _, list := range []struct {
		name  string
		named corev1.ResourceList
	}{{"limits", resources.Limits}, {"requests", resources.Requests}} {
		var extended []string
		for name := range list.named {
			if !plain(name) {
				extended = append(extended, string(name))
			}
		}
		slices.Sort(extended)
		for _, name := range extended {
			r.add(Devices, fmt.Sprintf("%s.%s[%s]", path, list.name, name), "remove it", "is a device plugin's, which may bring a device into the pod, past its lock")
		}
	}
}

// plain reports whether a resource is one that the kubelet itself hands out.
func plain(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage:
		return true
	}
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
