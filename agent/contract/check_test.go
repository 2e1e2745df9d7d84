package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/holdfast-cni/holdfast/lock"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

var policyOfTests = Policy{Images: []string{digest}, SeccompProfiles: []string{"profiles/agent.json"}, RuntimeClasses: []string{"runc-2"}}

// good is a pod that keeps the contract.
func good() *corev1.Pod {
	restricted := func(user int64) *corev1.SecurityContext {
		return &corev1.SecurityContext{
			RunAsUser: &user, RunAsGroup: &user, AllowPrivilegeEscalation: ptr.To(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	}
	return &corev1.Pod{Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		InitContainers: []corev1.Container{
			{
				Name: "sidecar", Image: "registry.example/holdfast:1.0@" + digest, Args: []string{"--x"}, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
				StartupProbe:    &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(15021)}}},
				SecurityContext: restricted(lock.SidecarUID),
				VolumeMounts:    []corev1.VolumeMount{{MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}, {MountPath: "/tmp"}},
			},
			{Name: "fetch", SecurityContext: restricted(1000)},
		},
		Containers: []corev1.Container{{
			Name: "agent", SecurityContext: restricted(1000), VolumeMounts: []corev1.VolumeMount{{MountPath: "/usr/bin"}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1"), "hugepages-2Mi": resource.MustParse("2Mi")}},
		}},
		EphemeralContainers: []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", SecurityContext: restricted(1001)}, TargetContainerName: "agent",
		}},
	}}
}

// N8: what keeps the contract in every way that there is to keep it.
func TestPodsThatKeepTheContract(t *testing.T) {
	localhost := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("profiles/agent.json")}
	tests := map[string]func(*corev1.PodSpec){
		"plain":                    func(*corev1.PodSpec) {},
		"no ephemeral container":   func(s *corev1.PodSpec) { s.EphemeralContainers = nil },
		"a user for the whole pod": func(s *corev1.PodSpec) { s.SecurityContext.RunAsUser, main(s).RunAsUser = ptr.To[int64](1000), nil },
		"a group of the image":     func(s *corev1.PodSpec) { main(s).RunAsGroup = nil },
		"a listed profile":         func(s *corev1.PodSpec) { main(s).SeccompProfile = localhost },
		"a listed profile for all": func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = localhost },
		"a listed runtime class":   func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("runc-2") },
		"the default's class":      func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("") },
		"a low port":               func(s *corev1.PodSpec) { main(s).Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"} },
		"Linux by name":            func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Linux} },
		"the sidecar's for all, and none but it takes it": func(s *corev1.PodSpec) {
			s.SecurityContext.RunAsUser, s.SecurityContext.RunAsGroup = ptr.To[int64](lock.SidecarUID), ptr.To[int64](lock.SidecarGID)
			s.InitContainers[0].SecurityContext.RunAsUser, s.InitContainers[0].SecurityContext.RunAsGroup = nil, nil
		},
		"a probe by TCP":              probes(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(15021)}}),
		"a probe by gRPC":             probes(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 15021}}),
		"a probe of a number as text": probes(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("15021")}}),
		"a probe of a port by name":   probes(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("health")}}, port("x", 1), port("health", 15021)),
		"a probe of TCP's by name":    probes(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("health")}}, port("health", 15021)),
		"another liveness probe": func(s *corev1.PodSpec) {
			s.InitContainers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}
		},
		"a variable of the sidecar's":          func(s *corev1.PodSpec) { s.InitContainers[0].Env = []corev1.EnvVar{{Name: "OLD_X"}, {Name: "LDX"}} },
		"the loader's, of another":             func(s *corev1.PodSpec) { s.Containers[0].Env = []corev1.EnvVar{{Name: "LD_PRELOAD"}} },
		"variables from elsewhere, of another": func(s *corev1.PodSpec) { s.Containers[0].EnvFrom = make([]corev1.EnvFromSource, 1) },
		"a message as usual":                   func(s *corev1.PodSpec) { s.InitContainers[0].TerminationMessagePath = "/dev/termination-log" },
		"a message with the data":              func(s *corev1.PodSpec) { s.InitContainers[0].TerminationMessagePath = "/run/ended" },
		"a message of another":                 func(s *corev1.PodSpec) { s.Containers[0].TerminationMessagePath = "/holdfast-sidecar" },
		"much that nobody judges": func(s *corev1.PodSpec) {
			s.Containers[0].Args, s.InitContainers[0].Env = []string{strings.Repeat("x", Largest)}, []corev1.EnvVar{{Name: "X", Value: strings.Repeat("x", Largest)}}
		},
		"a user namespace": func(s *corev1.PodSpec) { s.HostUsers = ptr.To(false) },
		"root of a user namespace": func(s *corev1.PodSpec) {
			s.HostUsers, s.SecurityContext.RunAsNonRoot, main(s).RunAsUser = ptr.To(false), nil, ptr.To[int64](0)
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			pod := good()
			change(&pod.Spec)
			for _, r := range Check(pod, policyOfTests) {
				t.Errorf("%s: %s", r.Rule, r)
			}
		})
	}
}

// probes gives the sidecar another startup probe, and ports.
func probes(handler corev1.ProbeHandler, ports ...corev1.ContainerPort) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.InitContainers[0].StartupProbe.ProbeHandler, s.InitContainers[0].Ports = handler, ports
	}
}

func port(name string, number int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: number}
}

func main(s *corev1.PodSpec) *corev1.SecurityContext { return s.Containers[0].SecurityContext }

type breach struct {
	does  func(*corev1.PodSpec)
	rule  Rule
	field string
}

func requests(name corev1.ResourceName) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}}
}

func execs() corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/tmp/x"}}}
}

var breaches = map[string]breach{
	"no sidecar": {func(s *corev1.PodSpec) { s.InitContainers = nil }, SidecarMissing, "spec.initContainers"},
	"the sidecar after another": {func(s *corev1.PodSpec) {
		s.InitContainers[0], s.InitContainers[1] = s.InitContainers[1], s.InitContainers[0]
		s.InitContainers[1].SecurityContext.RunAsUser, s.InitContainers[1].SecurityContext.RunAsGroup = ptr.To[int64](1), ptr.To[int64](1)
	}, SidecarMissing, "spec.initContainers[0].restartPolicy"},
	"a sidecar that ends": {func(s *corev1.PodSpec) {
		s.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicy("OnFailure"))
	}, SidecarMissing, "spec.initContainers[0].restartPolicy"},
	"no startup probe":                 {func(s *corev1.PodSpec) { s.InitContainers[0].StartupProbe = nil }, SidecarProbe, "spec.initContainers[0].startupProbe"},
	"a probe by HTTP of another port":  {probes(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}), SidecarProbe, "spec.initContainers[0].startupProbe"},
	"a probe by HTTP of no port":       {probes(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}}), SidecarProbe, "spec.initContainers[0].startupProbe"},
	"a probe by TCP of another port":   {probes(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(15020)}}), SidecarProbe, "spec.initContainers[0].startupProbe"},
	"a probe by gRPC of another port":  {probes(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 15022}}), SidecarProbe, "spec.initContainers[0].startupProbe"},
	"a probe of a name for another":    {probes(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("health")}}, port("health", 80), port("x", 15021)), SidecarProbe, "spec.initContainers[0].startupProbe"},
	"a probe of a number that's named": {probes(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("15021")}}, port("15021", 80)), SidecarProbe, "spec.initContainers[0].startupProbe"},
	"a probe of a name for none":       {probes(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("health")}}), SidecarProbe, "spec.initContainers[0].startupProbe"},
	"a probe that asks nothing":        {probes(corev1.ProbeHandler{}), SidecarProbe, "spec.initContainers[0].startupProbe"},
	"a library before the sidecar's": {func(s *corev1.PodSpec) {
		s.InitContainers[0].Env = []corev1.EnvVar{{Name: "X"}, {Name: "LD_PRELOAD", Value: "/tmp/x.so"}}
	}, SidecarEnvironment, "spec.initContainers[0].env[1]"},
	"an auditor of the sidecar's": {func(s *corev1.PodSpec) { s.InitContainers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT"}} }, SidecarEnvironment, "spec.initContainers[0].env[0]"},
	"variables from elsewhere": {func(s *corev1.PodSpec) {
		s.InitContainers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
	}, SidecarEnvironment, "spec.initContainers[0].envFrom"},
	"a tag":               {func(s *corev1.PodSpec) { s.InitContainers[0].Image = "holdfast:1.0" }, SidecarImage, "spec.initContainers[0].image"},
	"a digest in the tag": {func(s *corev1.PodSpec) { s.InitContainers[0].Image = "x@" + digest + "/y" }, SidecarImage, "spec.initContainers[0].image"},
	"another digest": {func(s *corev1.PodSpec) {
		s.InitContainers[0].Image = "holdfast@" + strings.Replace(digest, "0123", "3210", 1)
	}, SidecarImage, "spec.initContainers[0].image"},
	"a sidecar of another user":  {func(s *corev1.PodSpec) { s.InitContainers[0].SecurityContext.RunAsUser = ptr.To[int64](1) }, SidecarIdentity, "spec.initContainers[0].securityContext.runAsUser"},
	"a sidecar of another group": {func(s *corev1.PodSpec) { s.InitContainers[0].SecurityContext.RunAsGroup = ptr.To[int64](1) }, SidecarIdentity, "spec.initContainers[0].securityContext.runAsGroup"},
	"a sidecar of no group":      {func(s *corev1.PodSpec) { s.InitContainers[0].SecurityContext.RunAsGroup = nil }, SidecarIdentity, "spec.initContainers[0].securityContext.runAsGroup"},
	"another command":            {func(s *corev1.PodSpec) { s.InitContainers[0].Command = []string{"/tmp/x"} }, SidecarCommand, "spec.initContainers[0].command"},
	"a startup probe that runs":  {func(s *corev1.PodSpec) { s.InitContainers[0].StartupProbe.ProbeHandler = execs() }, SidecarCommand, "spec.initContainers[0].startupProbe.exec"},
	"a liveness probe that runs": {func(s *corev1.PodSpec) {
		s.InitContainers[0].LivenessProbe = &corev1.Probe{ProbeHandler: execs()}
	}, SidecarCommand, "spec.initContainers[0].livenessProbe.exec"},
	"a readiness probe that runs": {func(s *corev1.PodSpec) {
		s.InitContainers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: execs()}
	}, SidecarCommand, "spec.initContainers[0].readinessProbe.exec"},
	"a hook at its start": {func(s *corev1.PodSpec) {
		s.InitContainers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: execs().Exec}}
	}, SidecarCommand, "spec.initContainers[0].lifecycle.postStart.exec"},
	"a hook at its end": {func(s *corev1.PodSpec) {
		s.InitContainers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: execs().Exec}}
	}, SidecarCommand, "spec.initContainers[0].lifecycle.preStop.exec"},
	"a mount over the sidecar":               {func(s *corev1.PodSpec) { s.InitContainers[0].VolumeMounts[1].MountPath = "/tmp/../holdfast-sidecar" }, SidecarMount, "spec.initContainers[0].volumeMounts[1].mountPath"},
	"the kubelet's message over the sidecar": {func(s *corev1.PodSpec) { s.InitContainers[0].TerminationMessagePath = "/holdfast-sidecar" }, SidecarMount, "spec.initContainers[0].terminationMessagePath"},
	"too much of it":                         {func(s *corev1.PodSpec) { s.Containers[0].Ports = make([]corev1.ContainerPort, Largest) }, Oversize, "pod"},
	"a mount over everything":                {func(s *corev1.PodSpec) { s.InitContainers[0].VolumeMounts[1].MountPath = "/" }, SidecarMount, "spec.initContainers[0].volumeMounts[1].mountPath"},
	"an init container's user":               {func(s *corev1.PodSpec) { s.InitContainers[1].SecurityContext.RunAsUser = ptr.To[int64](64128) }, SidecarsUser, "spec.initContainers[1].securityContext.runAsUser"},
	"a container's user":                     {func(s *corev1.PodSpec) { main(s).RunAsUser = ptr.To[int64](64128) }, SidecarsUser, "spec.containers[0].securityContext.runAsUser"},
	"a user that wraps":                      {func(s *corev1.PodSpec) { main(s).RunAsUser = ptr.To[int64](1<<32 + 64128) }, SidecarsUser, "spec.containers[0].securityContext.runAsUser"},
	"an ephemeral one's user":                {func(s *corev1.PodSpec) { s.EphemeralContainers[0].SecurityContext.RunAsUser = ptr.To[int64](64128) }, SidecarsUser, "spec.ephemeralContainers[0].securityContext.runAsUser"},
	"the pod's user, taken":                  {func(s *corev1.PodSpec) { s.SecurityContext.RunAsUser, main(s).RunAsUser = ptr.To[int64](64128), nil }, SidecarsUser, "spec.containers[0].securityContext.runAsUser"},
	"an init container's group":              {func(s *corev1.PodSpec) { s.InitContainers[1].SecurityContext.RunAsGroup = ptr.To[int64](64128) }, SidecarsGroup, "spec.initContainers[1].securityContext.runAsGroup"},
	"a container's group":                    {func(s *corev1.PodSpec) { main(s).RunAsGroup = ptr.To[int64](64128) }, SidecarsGroup, "spec.containers[0].securityContext.runAsGroup"},
	"an ephemeral one's group":               {func(s *corev1.PodSpec) { s.EphemeralContainers[0].SecurityContext.RunAsGroup = ptr.To[int64](64128) }, SidecarsGroup, "spec.ephemeralContainers[0].securityContext.runAsGroup"},
	"the pod's group, taken":                 {func(s *corev1.PodSpec) { s.SecurityContext.RunAsGroup, main(s).RunAsGroup = ptr.To[int64](64128), nil }, SidecarsGroup, "spec.containers[0].securityContext.runAsGroup"},
	"a supplemental group":                   {func(s *corev1.PodSpec) { s.SecurityContext.SupplementalGroups = []int64{1, 64128} }, SidecarsGroup, "spec.securityContext.supplementalGroups[1]"},
	"the volumes' group":                     {func(s *corev1.PodSpec) { s.SecurityContext.FSGroup = ptr.To[int64](64128) }, SidecarsGroup, "spec.securityContext.fsGroup"},
	"no user, init":                          {func(s *corev1.PodSpec) { s.InitContainers[1].SecurityContext.RunAsUser = nil }, UserMissing, "spec.initContainers[1].securityContext.runAsUser"},
	"no user, sidecar":                       {func(s *corev1.PodSpec) { s.InitContainers[0].SecurityContext.RunAsUser = nil }, UserMissing, "spec.initContainers[0].securityContext.runAsUser"},
	"no user":                                {func(s *corev1.PodSpec) { main(s).RunAsUser = nil }, UserMissing, "spec.containers[0].securityContext.runAsUser"},
	"no user, ephemeral":                     {func(s *corev1.PodSpec) { s.EphemeralContainers[0].SecurityContext.RunAsUser = nil }, UserMissing, "spec.ephemeralContainers[0].securityContext.runAsUser"},
	"shared processes":                       {func(s *corev1.PodSpec) { s.ShareProcessNamespace = ptr.To(true) }, SharedProcesses, "spec.shareProcessNamespace"},
	"a debugger of the sidecar":              {func(s *corev1.PodSpec) { s.EphemeralContainers[0].TargetContainerName = "sidecar" }, SharedProcesses, "spec.ephemeralContainers[0].targetContainerName"},
	"a claim":                                {func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, ResourceClaims, "spec.resourceClaims"},
	"a container's claim": {func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}, ResourceClaims, "spec.containers[0].resources.claims"},
	"a device plugin's": {func(s *corev1.PodSpec) { s.Containers[0].Resources = requests("nvidia.com/gpu") }, Devices, "spec.containers[0].resources.requests[nvidia.com/gpu]"},
	"the pod's device":  {func(s *corev1.PodSpec) { s.Resources = ptr.To(requests("smarter-devices/vsock")) }, Devices, "spec.resources.requests[smarter-devices/vsock]"},
	"a block device": {func(s *corev1.PodSpec) {
		s.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "d", DevicePath: "/dev/x"}}
	}, Devices, "spec.containers[0].volumeDevices"},
	"a profile that is not listed": {func(s *corev1.PodSpec) {
		main(s).SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("x")}
	}, Seccomp, "spec.containers[0].securityContext.seccompProfile"},
	"a profile without a name": {func(s *corev1.PodSpec) {
		s.EphemeralContainers[0].SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}
	}, Seccomp, "spec.ephemeralContainers[0].securityContext.seccompProfile"},
	"a runtime class": {func(s *corev1.PodSpec) { s.RuntimeClassName = ptr.To("kata") }, RuntimeClass, "spec.runtimeClassName"},
	"Windows":         {func(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }, OperatingSystem, "spec.os.name"},

	// What the standard refuses, each of its checks once.
	"host network":      {func(s *corev1.PodSpec) { s.HostNetwork = true }, RestrictedStandard, "spec.hostNetwork, spec.hostPID, spec.hostIPC"},
	"host processes":    {func(s *corev1.PodSpec) { s.HostPID = true }, RestrictedStandard, "spec.hostNetwork, spec.hostPID, spec.hostIPC"},
	"host IPC":          {func(s *corev1.PodSpec) { s.HostIPC = true }, RestrictedStandard, "spec.hostNetwork, spec.hostPID, spec.hostIPC"},
	"host path":         {hostPath, RestrictedStandard, "spec.volumes"},
	"host port":         {func(s *corev1.PodSpec) { s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, RestrictedStandard, "spec.*.ports.hostPort"},
	"escalation":        {func(s *corev1.PodSpec) { main(s).AllowPrivilegeEscalation = nil }, RestrictedStandard, "spec.*.securityContext.allowPrivilegeEscalation"},
	"privileged":        {func(s *corev1.PodSpec) { main(s).Privileged = ptr.To(true) }, RestrictedStandard, "spec.*.securityContext.privileged"},
	"capabilities":      {func(s *corev1.PodSpec) { main(s).Capabilities = nil }, RestrictedStandard, "spec.*.securityContext.capabilities"},
	"NET_ADMIN":         {func(s *corev1.PodSpec) { main(s).Capabilities.Add = []corev1.Capability{"NET_ADMIN"} }, RestrictedStandard, "spec.*.securityContext.capabilities"},
	"root":              {func(s *corev1.PodSpec) { main(s).RunAsUser = ptr.To[int64](0) }, RestrictedStandard, "spec.*.securityContext.runAsUser"},
	"perhaps root":      {func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil }, RestrictedStandard, "spec.*.securityContext.runAsNonRoot"},
	"unconfined":        {func(s *corev1.PodSpec) { main(s).SeccompProfile = &corev1.SeccompProfile{Type: "Unconfined"} }, RestrictedStandard, "spec.*.securityContext.seccompProfile"},
	"no profile":        {func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil }, RestrictedStandard, "spec.*.securityContext.seccompProfile"},
	"AppArmor":          {func(s *corev1.PodSpec) { main(s).AppArmorProfile = &corev1.AppArmorProfile{Type: "Unconfined"} }, RestrictedStandard, "spec.*.securityContext.appArmorProfile"},
	"SELinux":           {func(s *corev1.PodSpec) { main(s).SELinuxOptions = &corev1.SELinuxOptions{User: "root"} }, RestrictedStandard, "spec.*.securityContext.seLinuxOptions"},
	"proc mount":        {func(s *corev1.PodSpec) { main(s).ProcMount = ptr.To(corev1.UnmaskedProcMount) }, RestrictedStandard, "spec.*.securityContext.procMount"},
	"sysctl":            {func(s *corev1.PodSpec) { s.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax"}} }, RestrictedStandard, "spec.securityContext.sysctls"},
	"a probe elsewhere": {func(s *corev1.PodSpec) { s.InitContainers[0].StartupProbe.HTTPGet.Host = "10.0.0.1" }, RestrictedStandard, "spec.*.httpGet.host, spec.*.tcpSocket.host"},
	"host process": {func(s *corev1.PodSpec) {
		main(s).WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: ptr.To(true)}
	}, RestrictedStandard, "spec.*.securityContext.windowsOptions.hostProcess"},
}

func hostPath(s *corev1.PodSpec) {
	s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
}

// N8: containerd reads a runtime from an annotation, too.
func TestUntrustedWorkload(t *testing.T) {
	pod := good()
	pod.Annotations = map[string]string{untrusted: "true"}
	if broken := Check(pod, policyOfTests); len(broken) != 1 || broken[0].Rule != RuntimeClass {
		t.Errorf("broken: %v", broken)
	}
	pod.Annotations[untrusted] = "false"
	if broken := Check(pod, policyOfTests); len(broken) != 0 {
		t.Errorf("broken: %v", broken)
	}
}

// I1: however large a pod is, what is kept of it is small, says the same, and has the annotations that were asked for.
func TestJudged(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, change := range map[string]func(*corev1.Pod){
		"as it is": func(*corev1.Pod) {},
		"orders": func(p *corev1.Pod) {
			p.Spec.Containers[0].Command, p.Spec.Containers[0].Env = []string{big}, []corev1.EnvVar{{Value: big}}
		},
		"sidecar's orders": func(p *corev1.Pod) {
			p.Spec.InitContainers[0].Args, p.Spec.InitContainers[0].Env = []string{big}, []corev1.EnvVar{{Name: "X", Value: big}}
			p.Spec.InitContainers[0].StartupProbe.HTTPGet.Path = big
		},
		"affinity":    func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"x": big} },
		"annotations": func(p *corev1.Pod) { p.Annotations = map[string]string{"x": big, "kept": big} },
		"volumes":     func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: big}} },
		"AppArmor": func(p *corev1.Pod) {
			p.Annotations = map[string]string{}
			for i := range 1000 {
				p.Annotations[fmt.Sprint(corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix, big[:200], i)] = "runtime/default"
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := good()
			pod.Annotations = map[string]string{}
			change(pod)
			pod.Namespace, pod.Name, pod.UID = "n", "p", "u"
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "asked", "value")
			judged := Judged(pod, "asked", "kept")
			if size := judged.Size(); size > Largest+longest {
				t.Errorf("%d bytes are left", size)
			}
			if judged.Name != "p" || judged.Namespace != "n" || judged.UID != "u" || judged.Annotations["asked"] != "value" || judged.Annotations["x"] != "" {
				t.Errorf("of its metadata is left: %v", judged.ObjectMeta)
			}
			if d := cmp.Diff(judged, Judged(judged, "asked", "kept")); d != "" {
				t.Errorf("it isn't the same a second time:\n%s", d)
			}
			if d := cmp.Diff(Check(pod, policyOfTests), Check(judged, policyOfTests)); d != "" {
				t.Errorf("it is judged otherwise:\n%s", d)
			}
		})
	}
}

// N8: each rule is broken by a pod that breaks nothing else, so that no rule stands only because another refuses the same pod.
func TestEachRuleAlone(t *testing.T) {
	broken := map[Rule]bool{}
	for name, b := range breaches {
		broken[b.rule] = true
		t.Run(name, func(t *testing.T) {
			pod := good()
			b.does(&pod.Spec)
			got := Check(pod, policyOfTests)
			if len(got) != 1 || got[0].Rule != b.rule || got[0].Field != b.field || got[0].Says == "" || got[0].Fix == "" {
				t.Errorf("got %v, want %s at %s alone", got, b.rule, b.field)
			}
			if text := got[0].String(); strings.ContainsAny(text, "\n") || strings.HasSuffix(text, ".") {
				t.Errorf("not one sentence: %q", text)
			}
		})
	}
	for _, rule := range []Rule{RestrictedStandard, OperatingSystem, RuntimeClass, SharedProcesses, Devices, ResourceClaims, Seccomp, UserMissing,
		SidecarsUser, SidecarsGroup, SidecarMissing, SidecarProbe, SidecarImage, SidecarIdentity, SidecarCommand, SidecarEnvironment, SidecarMount} {
		if !broken[rule] {
			t.Errorf("no pod breaks %s", rule)
		}
	}
}

// A user namespace relaxes the standard, and nothing that the lock rests on.
func TestUserNamespaceDoesNotRelaxTheRest(t *testing.T) {
	relaxed := map[string]bool{"root": true, "perhaps root": true}
	for name, b := range breaches {
		pod := good()
		pod.Spec.HostUsers = ptr.To(false)
		b.does(&pod.Spec)
		if got := Check(pod, policyOfTests); (len(got) == 0) != relaxed[name] {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// An empty policy allows no sidecar, no profile and no class: what isn't listed isn't allowed.
func TestEmptyPolicyAllowsNothing(t *testing.T) {
	got := Check(good(), Policy{})
	if len(got) != 1 || got[0].Rule != SidecarImage {
		t.Errorf("got %v", got)
	}
	if got := Check(nil, Policy{}); len(got) != 1 {
		t.Errorf("no pod: got %v", got)
	}
}

func TestCheckChangesNothing(t *testing.T) {
	for name, b := range breaches {
		pod := good()
		b.does(&pod.Spec)
		before := pod.DeepCopy()
		first := Check(pod, policyOfTests)
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(first, Check(pod, policyOfTests)); diff != "" {
			t.Errorf("%s: asked twice: %s", name, diff)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, b := range breaches {
		pod := good()
		b.does(&pod.Spec)
		data, err := json.Marshal(pod)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"spec":{"initContainers":[{}],"ephemeralContainers":[{}],"securityContext":{}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var pod corev1.Pod
		if json.Unmarshal(data, &pod) != nil {
			t.Skip()
		}
		for _, r := range Check(&pod, policyOfTests) {
			if r.Rule == "" || r.Field == "" || r.Says == "" || r.Fix == "" {
				t.Errorf("a refusal that says nothing: %+v", r)
			}
		}
	})
}
