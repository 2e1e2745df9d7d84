package helm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/helm"
)

// agentSet is the agent's DaemonSet, read as strictly as an API server can; nil where there is none.
func agentSet(t *testing.T, values map[string]any) *appsv1.DaemonSet {
	t.Helper()
	manifests, _ := mustRender(t, helm.RenderOptions{Values: values})
	for _, o := range objects(t, manifests) {
		if o.GetKind() != "DaemonSet" || o.GetName() != "rel-agent" {
			continue
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		ds := &appsv1.DaemonSet{}
		if err := yaml.UnmarshalStrict(data, ds); err != nil {
			t.Fatal(err)
		}
		return ds
	}
	return nil
}

func TestN17TheAgentIsThereForOurOwnPluginAlone(t *testing.T) {
	for _, set := range valueSets(t) {
		v := values(t, set)
		plugin, _ := v["plugin"].(map[string]any)
		_, vendor := plugin["entry"]
		manifests, _ := mustRender(t, helm.RenderOptions{Values: v})
		for _, o := range objects(t, manifests) {
			if vendor && strings.Contains(o.GetName(), "rel-agent") {
				t.Errorf("%s: %s %s is rendered for another vendor's plugin", set, o.GetKind(), o.GetName())
			}
		}
		if !vendor && agentSet(t, v) == nil {
			t.Errorf("%s: there is no agent", set)
		}
	}
}

func TestN1TheAgentRunsWhereInstallCNIDoes(t *testing.T) {
	v := values(t, "defaults")
	pod, other := agentSet(t, v).Spec.Template.Spec, installCNI(t, v).Spec.Template.Spec
	if diff := cmp.Diff(other.Affinity, pod.Affinity); diff != "" {
		t.Errorf("-install-cni's +agent's:\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, pod.Tolerations); diff != "" {
		t.Errorf("-want +rendered:\n%s", diff)
	}
}

func TestN12N19TheAgentIsReplacedOneNodeAtATime(t *testing.T) {
	ds := agentSet(t, values(t, "defaults"))
	rolling := ds.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable.IntValue() != 1 || rolling.MaxSurge != nil || ds.Spec.MinReadySeconds != 30 {
		t.Errorf("strategy %+v, minReadySeconds %d", ds.Spec.UpdateStrategy, ds.Spec.MinReadySeconds)
	}
	if probe := ds.Spec.Template.Spec.Containers[0].ReadinessProbe; probe == nil || probe.HTTPGet.Path != "/readyz" {
		t.Errorf("readiness probe %+v", probe)
	}
}

func TestN6TheAgentHasTwoCapabilitiesAndNothingMore(t *testing.T) {
	no, yes := false, true
	want := &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{
		Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN", "SYS_ADMIN"},
	}}
	pod := agentSet(t, values(t, "defaults")).Spec.Template.Spec
	if diff := cmp.Diff(want, pod.Containers[0].SecurityContext); diff != "" {
		t.Errorf("-want +rendered:\n%s", diff)
	}
	if pod.HostPID || pod.HostIPC || !pod.HostNetwork || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("hostPID %v, hostIPC %v, hostNetwork %v, %+v", pod.HostPID, pod.HostIPC, pod.HostNetwork, pod.SecurityContext)
	}
}

func TestN16TheAgentMountsOnlyWhatItUses(t *testing.T) {
	for name, test := range map[string]struct {
		chain map[string]any
		cri   string
	}{
		"known sockets": {nil, "/run at /host/run ro"},
		"a socket":      {map[string]any{"criSocket": "/var/snap/microk8s/common/run/containerd.sock"}, "/var/snap/microk8s/common/run at /host/var/snap/microk8s/common/run ro"},
	} {
		v := values(t, "defaults")
		v["chain"] = test.chain
		var mounts []string
		pod := agentSet(t, v).Spec.Template.Spec
		for _, m := range pod.Containers[0].VolumeMounts {
			for _, volume := range pod.Volumes {
				if volume.Name == m.Name {
					line := volume.HostPath.Path + " at " + m.MountPath
					if m.ReadOnly {
						line += " ro"
					}
					mounts = append(mounts, line)
				}
			}
		}
		want := []string{"/run/netns at /run/netns ro", "/run/netns at /var/run/netns ro", "/run/holdfast at /run/holdfast", "/var/lib/holdfast at /var/lib/holdfast", test.cri}
		if diff := cmp.Diff(want, mounts); diff != "" {
			t.Errorf("%s: -want +rendered:\n%s", name, diff)
		}
	}
}
