package helm_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/helm"
)

// installCNI is the DaemonSet, read as strictly as an API server can.
func installCNI(t *testing.T, values map[string]any) *appsv1.DaemonSet {
	t.Helper()
	manifests, _ := mustRender(t, helm.RenderOptions{Values: values})
	data, err := json.Marshal(find(t, manifests, "DaemonSet", "rel-install-cni"))
	if err != nil {
		t.Fatal(err)
	}
	ds := &appsv1.DaemonSet{}
	if err := yaml.UnmarshalStrict(data, ds); err != nil {
		t.Fatal(err)
	}
	if len(ds.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%d containers", len(ds.Spec.Template.Spec.Containers))
	}
	return ds
}

func TestN1InstallCNIRunsOnRegisteredLinuxNodesUntilTheyAreTakenOut(t *testing.T) {
	linux := corev1.NodeSelectorRequirement{Key: "kubernetes.io/os", Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}}
	want := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "holdfast.dev/node", Operator: corev1.NodeSelectorOpExists}, linux}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "holdfast.dev/installed", Operator: corev1.NodeSelectorOpExists}, linux}},
		},
	}}}
	for _, set := range valueSets(t) {
		if diff := cmp.Diff(want, installCNI(t, values(t, set)).Spec.Template.Spec.Affinity); diff != "" {
			t.Errorf("%s: -want +rendered:\n%s", set, diff)
		}
	}
	pod := installCNI(t, values(t, "defaults")).Spec.Template.Spec
	if diff := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, pod.Tolerations); diff != "" {
		t.Errorf("it runs before the network does and on every tainted node (-want +rendered):\n%s", diff)
	}
}

func TestN6InstallCNIIsRootWithNoCapabilityAndNoPrivilege(t *testing.T) {
	no, yes := false, true
	want := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	for _, set := range valueSets(t) {
		pod := installCNI(t, values(t, set)).Spec.Template.Spec
		if diff := cmp.Diff(want, pod.Containers[0].SecurityContext); diff != "" {
			t.Errorf("%s: -want +rendered:\n%s", set, diff)
		}
		if pod.HostPID || pod.HostIPC || !pod.HostNetwork || pod.DNSPolicy != corev1.DNSDefault {
			t.Errorf("%s: hostPID %v, hostIPC %v, hostNetwork %v, dnsPolicy %v", set, pod.HostPID, pod.HostIPC, pod.HostNetwork, pod.DNSPolicy)
		}
		s := pod.SecurityContext
		if s.RunAsUser == nil || *s.RunAsUser != 0 || s.RunAsNonRoot != nil || s.SELinuxOptions.Type == "" || s.SeccompProfile.Type != "RuntimeDefault" {
			t.Errorf("%s: security context %+v", set, s)
		}
	}
}

// hostPaths are "<host path> at <mount path>" of the node's, "ro" where they cannot be written.
func hostPaths(t *testing.T, pod *corev1.PodSpec) []string {
	t.Helper()
	var list []string
	for _, v := range pod.Volumes {
		if v.HostPath == nil {
			continue
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if m.Name != v.Name {
				continue
			}
			line := v.HostPath.Path + " at " + m.MountPath
			if m.ReadOnly {
				line += " ro"
			}
			if m.MountPropagation == nil || *m.MountPropagation != corev1.MountPropagationHostToContainer {
				t.Errorf("%s: what the node mounts later would not be seen, and what it unmounts would be held", line)
			}
			list = append(list, line)
		}
	}
	return list
}

func TestN16InstallCNIMountsOnlyWhatItUses(t *testing.T) {
	three := map[string]any{"confDir": "/c/net.d", "binDir": "/b", "criSocket": "/run/k3s/containerd/containerd.sock"}
	pod := installCNI(t, map[string]any{"plugin": map[string]any{"resolvers": []any{"10.96.0.10"}}, "chain": three}).Spec.Template.Spec
	want := []string{"/c/net.d at /host/c/net.d", "/b at /host/b", "/run/k3s/containerd at /host/run/k3s/containerd ro"}
	if diff := cmp.Diff(want, hostPaths(t, &pod)); diff != "" {
		t.Errorf("-want +rendered:\n%s", diff)
	}
	for left := range three {
		two := map[string]any{}
		for key, value := range three {
			if key != left {
				two[key] = value
			}
		}
		pod := installCNI(t, map[string]any{"plugin": map[string]any{"resolvers": []any{"10.96.0.10"}}, "chain": two}).Spec.Template.Spec
		if diff := cmp.Diff([]string{"/ at /host"}, hostPaths(t, &pod)); diff != "" {
			t.Errorf("without %s it is asked of the runtime (-want +rendered):\n%s", left, diff)
		}
	}
}

func TestN17TheBinaryIsOursForOurPluginAndNoneForAnothers(t *testing.T) {
	for set, want := range map[string]string{
		"defaults": "--binary=/holdfast-cni", "other-vendor": "--binary=", "vendor-binary": "--binary=/vendor/linkerd-cni",
	} {
		if args := installCNI(t, values(t, set)).Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, want) {
			t.Errorf("%s: args %q, want %q", set, args, want)
		}
	}
}

// The pages of the commands are made from their flags.
func TestTheChartGivesCommandsOnlyFlagsTheyHave(t *testing.T) {
	flag := regexp.MustCompile(`^--[a-z-]+`)
	for _, set := range valueSets(t) {
		manifests, _ := mustRender(t, helm.RenderOptions{Values: values(t, set)})
		for _, o := range objects(t, manifests) {
			if !slices.Contains([]string{"DaemonSet", "Deployment", "Job"}, o.GetKind()) {
				continue
			}
			c := container(t, o)
			command := c["command"].([]any)[1].(string)
			page, err := os.ReadFile("../docs/commands/" + command + ".md")
			if err != nil {
				t.Fatal(err)
			}
			for _, arg := range c["args"].([]any) {
				if name := flag.FindString(arg.(string)); name == "" || !strings.Contains(string(page), "      "+name+" ") {
					t.Errorf("%s: holdfast %s has no flag %q", set, command, arg)
				}
			}
		}
	}
}
