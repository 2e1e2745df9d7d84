package contract

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-cni/holdfast/lock"
)

// sidecarMounts are the folders in which, or below which, volumes may be mounted into the sidecar: for data, away from what it runs.
var sidecarMounts = []string{"/etc/holdfast", "/run", "/tmp", "/var/lib/holdfast", "/var/run"}

// sidecar checks that the pod's first init container is the genuine sidecar and nothing else runs in it: its UID is what opens the
// lock. An image by digest says what the files are, so the pod may neither name another command nor mount over them.
func (r *refusals) sidecar(spec *corev1.PodSpec, p Policy) {
	const at = "spec.initContainers[0]"
	if len(spec.InitContainers) == 0 {
		r.add(SidecarMissing, "spec.initContainers", "put the sidecar first, with restartPolicy: Always", "is empty, so that there is no sidecar")
		return
	}
	c := containers(spec)[0]
	if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		r.add(SidecarMissing, at+".restartPolicy", "put the sidecar before it, with restartPolicy: Always", "isn't Always, so that container %s is no sidecar", c.Name)
		return
	}
	r.sidecarProbe(c, at+".startupProbe")
	if digest := digestOf(c.Image); digest == "" {
		r.add(SidecarImage, at+".image", "write it as name@sha256:…", "%.200q isn't named by its digest", c.Image)
	} else if !slices.Contains(p.Images, digest) {
		r.add(SidecarImage, at+".image", "use the release's sidecar, or list the digest in plugin.json's sidecar.images", "%.80s isn't a sidecar that plugin.json allows", digest)
	}
	if user := c.user(spec); user != nil && !is(user, lock.SidecarUID) {
		r.add(SidecarIdentity, at+".securityContext.runAsUser", fmt.Sprintf("write %d", lock.SidecarUID), "is %d, which the lock lets out nowhere", *user)
	}
	if group := c.group(spec); !is(group, lock.SidecarGID) {
		r.add(SidecarIdentity, at+".securityContext.runAsGroup", fmt.Sprintf("write %d", lock.SidecarGID), "isn't the group that the lock lets out")
	}
	r.sidecarRuns(c, at)
	r.sidecarEnvironment(c, at)
	for i, mount := range c.VolumeMounts {
		r.sidecarMount(fmt.Sprintf("%s.volumeMounts[%d].mountPath", at, i), mount.MountPath)
	}
	// The kubelet mounts a file there that everybody may write to; its default is not below the folders.
	if name := c.TerminationMessagePath; name != "" && name != corev1.TerminationMessagePathDefault {
		r.sidecarMount(at+".terminationMessagePath", name)
	}
}

func (r *refusals) sidecarMount(field, name string) {
	if !slices.ContainsFunc(sidecarMounts, func(folder string) bool { return within(name, folder) }) {
		r.add(SidecarMount, field, "mount below "+strings.Join(sidecarMounts, ", "), "%.200q could stand in the place of the sidecar's own files", name)
	}
}

// sidecarProbe refuses a startup probe that doesn't ask the sidecar itself: other containers would start before it is ready. One that
// runs a command is refused with the others that do.
func (r *refusals) sidecarProbe(c container, at string) {
	fix := fmt.Sprintf("probe port %d", lock.HealthPort)
	if c.StartupProbe == nil {
		r.add(SidecarProbe, at, fix, "is missing, so that other containers would start before the sidecar is ready")
		return
	}
	var port intstr.IntOrString
	switch p := c.StartupProbe; {
	case p.Exec != nil:
		return
	case p.HTTPGet != nil:
		port = p.HTTPGet.Port
	case p.TCPSocket != nil:
		port = p.TCPSocket.Port
	case p.GRPC != nil:
		port = intstr.FromInt32(p.GRPC.Port)
	}
	if c.portOf(port) != lock.HealthPort {
		r.add(SidecarProbe, at, fix, "asks %.80q and not the sidecar's health, so that other containers would start before it is ready", port.String())
	}
}

// sidecarEnvironment refuses what has the dynamic loader load something else into the sidecar (ld.so(8)), with its UID; and sources
// whose names the pod doesn't show.
func (r *refusals) sidecarEnvironment(c container, at string) {
	for i, variable := range c.Env {
		if strings.HasPrefix(variable.Name, "LD_") {
			r.add(SidecarEnvironment, fmt.Sprintf("%s.env[%d]", at, i), "remove it", "%.80q is the dynamic loader's, which may load another's code as the sidecar", variable.Name)
		}
	}
	if len(c.EnvFrom) > 0 {
		r.add(SidecarEnvironment, at+".envFrom", "name each variable in env", "hides which variables the sidecar gets, and LD_PRELOAD may be one")
	}
}

// sidecarRuns refuses every way in which a pod names a command to run in the sidecar, with its UID.
func (r *refusals) sidecarRuns(c container, at string) {
	if len(c.Command) > 0 {
		r.add(SidecarCommand, at+".command", "remove it; args may stay", "replaces what the sidecar's image runs")
	}
	probe := func(name string, p *corev1.Probe) {
		if p != nil && p.Exec != nil {
			r.add(SidecarCommand, at+"."+name+".exec", fmt.Sprintf("probe port %d by httpGet", lock.HealthPort), "runs a command as the sidecar")
		}
	}
	probe("startupProbe", c.StartupProbe)
	probe("livenessProbe", c.LivenessProbe)
	probe("readinessProbe", c.ReadinessProbe)
	handler := func(name string, h *corev1.LifecycleHandler) {
		if h != nil && h.Exec != nil {
			r.add(SidecarCommand, at+".lifecycle."+name+".exec", "remove it", "runs a command as the sidecar")
		}
	}
	if c.Lifecycle != nil {
		handler("postStart", c.Lifecycle.PostStart)
		handler("preStop", c.Lifecycle.PreStop)
	}
}

// digestOf is the digest that an image is named by, or nothing. With a tag and a digest, runtimes go by the digest.
func digestOf(image string) string {
	_, digest, _ := strings.Cut(image, "@")
	hexadecimal, found := strings.CutPrefix(digest, "sha256:")
	if !found || len(hexadecimal) != 64 || strings.Trim(hexadecimal, "0123456789abcdef") != "" {
		return ""
	}
	return digest
}

func within(name, folder string) bool {
	name = path.Clean("/" + name)
	return name == folder || strings.HasPrefix(name, folder+"/")
}
