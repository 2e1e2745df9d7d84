package configmap

import (
	"slices"
	"strings"
	"testing"
	"time"

	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var expect = Expect{
	ConfigMap:  DefaultConfigMap,
	Taint:      corev1.Taint{Key: "holdfast.dev/unchained", Effect: corev1.TaintEffectNoSchedule},
	APIAddress: true,
}

// config is a cilium-config in which nothing is wrong, changed by the pairs; the value "-" takes a key out.
func config(pairs ...string) *corev1.ConfigMap {
	data := map[string]string{
		KeyKubeProxyReplacement: "false", KeySocketLB: "false", KeyExclusive: "true",
		KeyWriteConf: "/host/etc/cni/net.d/05-cilium.conflist", KeyReadConf: "/tmp/cni-configuration/cni-config",
		KeyLogFile: "/var/run/cilium/cilium-cni.log", KeyDebug: "false",
	}
	for i := 0; i < len(pairs); i += 2 {
		if data[pairs[i]] = pairs[i+1]; pairs[i+1] == "-" {
			delete(data, pairs[i])
		}
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium-config",
			Annotations: map[string]string{"meta.helm.sh/release-name": "cilium"}},
		Data: data,
	}
}

func cilium(pairs ...string) *Cilium {
	return &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config(pairs...)}}
}

func nodeConfig(name string, selector map[string]string, pairs ...string) *ciliumv2.CiliumNodeConfig {
	c := &ciliumv2.CiliumNodeConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	c.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: selector}
	c.Spec.Defaults = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		c.Spec.Defaults[pairs[i]] = pairs[i+1]
	}
	return c
}

func daemonSet(change func(*corev1.PodSpec)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium",
		Labels: map[string]string{"helm.sh/chart": "cilium-1.20.2"}}}
	pod := &ds.Spec.Template.Spec
	pod.InitContainers = []corev1.Container{{Name: "config", Command: []string{"cilium-dbg", "build-config"}}}
	pod.Containers = []corev1.Container{{Name: "cilium-agent", Args: []string{"--config-dir=/tmp/cilium/config-map"},
		VolumeMounts: []corev1.VolumeMount{{Name: "cni-configuration", MountPath: "/tmp/cni-configuration"}}}}
	pod.Volumes = []corev1.Volume{{Name: "cni-configuration", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: DefaultConfigMap}}}}}
	if change != nil {
		change(pod)
	}
	return ds
}

func operatorWith(tolerations ...corev1.Toleration) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium-operator"}}
	d.Spec.Template.Spec.Tolerations = tolerations
	return d
}

// brief is what a test says of a finding: its kind and the nodes it holds on.
func brief(findings []Finding) []string {
	got := []string{}
	for _, f := range findings {
		got = append(got, strings.TrimSpace(string(f.ID)+" "+strings.Join(f.Nodes, ",")))
	}
	return got
}

func TestCheckFindsEachMisuse(t *testing.T) {
	labelled := func(name, pool string) Node { return Node{Name: name, Labels: map[string]string{"pool": pool}} }
	tests := map[string]struct {
		in     *Cilium
		expect func(*Expect)
		want   []string
		fix    string // in the first finding's fix
		says   string // in the first finding's message
	}{
		"nothing wrong": {in: cilium(), want: []string{}},
		"C4 KPR forces socket LB on where bpf-lb-sock says false": {
			in: cilium(KeyKubeProxyReplacement, "true"), want: []string{"SocketLBInPods"},
			says: `kube-proxy-replacement is "true", which forces socket LB on although bpf-lb-sock is "false"; bpf-lb-sock-hostns-only is not set`,
			fix:  "--set socketLB.hostNamespaceOnly=true"},
		"C4 socket LB on by itself": {
			in: cilium(KeySocketLB, "true", KeySocketLBHostOnly, "false"), want: []string{"SocketLBInPods"},
			says: `bpf-lb-sock is "true"; bpf-lb-sock-hostns-only is "false"`},
		"C4 hostNamespaceOnly": {in: cilium(KeyKubeProxyReplacement, "true", KeySocketLBHostOnly, "true"), want: []string{}},
		"C4 the old word strict": {
			in: cilium(KeyKubeProxyReplacement, "strict"), want: []string{"SettingInvalid", "SocketLBInPods"},
			says: `kube-proxy-replacement is "strict", which is not a boolean`, fix: "kubeProxyReplacement=true"},
		"C4 a node's own configuration": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()},
				NodeConfigs: []*ciliumv2.CiliumNodeConfig{nodeConfig("sock", map[string]string{"pool": "a"}, KeySocketLB, "true")},
				Nodes:       []Node{labelled("n1", "a"), labelled("n2", "b"), labelled("n3", "a")}},
			want: []string{"SocketLBInPods n1,n3"}, fix: `patch ciliumnodeconfig sock --type merge --patch '{"spec":{"defaults":{"bpf-lb-sock-hostns-only":"true"}}}'`},
		"C4 cured on some nodes": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config(KeySocketLB, "true")},
				NodeConfigs: []*ciliumv2.CiliumNodeConfig{nodeConfig("cure", map[string]string{"pool": "a"}, KeySocketLBHostOnly, "true")},
				Nodes:       []Node{labelled("n1", "a")}},
			want: []string{}},
		"C4 a node's annotation, where sources include it": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()},
				DaemonSet: daemonSet(func(p *corev1.PodSpec) {
					p.InitContainers[0].Args = []string{"--source=config-map:cilium-config,node"}
				}),
				Nodes: []Node{{Name: "n1", Annotations: map[string]string{"config.cilium.io/bpf-lb-sock": "true"}}, {Name: "n2"}}},
			want: []string{"SocketLBInPods n1"}, fix: "kubectl annotate node n1 --overwrite config.cilium.io/bpf-lb-sock-hostns-only=true"},
		"C4 the agent's own argument": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()},
				DaemonSet: daemonSet(func(p *corev1.PodSpec) {
					p.Containers[0].Args = append(p.Containers[0].Args, "--bpf-lb-sock")
				})},
			want: []string{"SocketLBInPods"}, fix: "extraArgs"},
		"C4 a CiliumNodeConfig that the override list denies": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()},
				DaemonSet: daemonSet(func(p *corev1.PodSpec) {
					p.InitContainers[0].Args = []string{"--deny-config-keys=bpf-lb-sock"}
				}),
				NodeConfigs: []*ciliumv2.CiliumNodeConfig{nodeConfig("sock", nil, KeySocketLB, "true")},
				Nodes:       []Node{{Name: "n1"}}},
			want: []string{"NodeConfigIgnored"}, says: "sets bpf-lb-sock, which"},
		"C8 not referenced":     {in: cilium(KeyReadConf, "-"), want: []string{"ConfigMapNotReferenced"}, fix: "--set cni.configMap=holdfast-cni-config"},
		"C8 exclusive off":      {in: cilium(KeyExclusive, "false"), want: []string{"ExclusiveFalse"}, says: "only when its agent restarts", fix: "cni.exclusive=true"},
		"C8 customConf":         {in: cilium(KeyCustomConf, "true", KeyExclusive, "-"), want: []string{"CustomConf", "ExclusiveFalse"}, fix: "cni.customConf=false"},
		"C8 nothing is written": {in: cilium(KeyWriteConf, "-"), want: []string{"WriteConfEmpty"}, fix: "cni.install=true"},
		"C8 uninstall on stop":  {in: cilium(KeyUninstall, "true"), want: []string{"UninstallOnStop"}, fix: "cni.uninstall=false"},
		"C8 the DaemonSet mounts another ConfigMap": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()}, DaemonSet: daemonSet(func(p *corev1.PodSpec) {
				p.Volumes[0].ConfigMap.Name = "other"
			})}, want: []string{"ConfigMapNotReferenced"}, says: `Cilium reads ConfigMap "other", not holdfast-cni-config`, fix: "--version 1.20.2"},
		"C8 a path where no ConfigMap is mounted": {
			in:   &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config(KeyReadConf, "/host/etc/cni/net.d/x")}, DaemonSet: daemonSet(nil)},
			want: []string{"ConfigMapNotReferenced"}, says: "where no ConfigMap is mounted"},
		"C8 wrong key: not mounted": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config(KeyReadConf, "/tmp/cni-configuration/b")}, DaemonSet: daemonSet(func(p *corev1.PodSpec) {
				p.Volumes[0].ConfigMap.Items = []corev1.KeyToPath{{Key: "a", Path: "a"}}
			})}, want: []string{"ConfigMapKeyDiffers"}, fix: "cni.configMapKey=a"},
		"C8 wrong key: not a key": {in: cilium(KeyReadConf, "/tmp/a b"), want: []string{"ConfigMapKeyDiffers"}},
		"C8 wrong namespace": {in: cilium(), expect: func(e *Expect) { e.Strays = []string{"holdfast"} },
			want: []string{"ConfigMapNamespaceDiffers"}, says: "outside Cilium's namespace kube-system"},
		"C8 the operator does not tolerate the taint": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()},
				Operator: operatorWith(corev1.Toleration{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists})},
			want: []string{"OperatorIntolerant"},
			fix:  `--set-json 'operator.tolerations=[{"key":"node.kubernetes.io/not-ready","operator":"Exists"},{"key":"holdfast.dev/unchained","operator":"Exists"}]'`},
		"C8 the operator tolerates all": {in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()},
			Operator: operatorWith(corev1.Toleration{Operator: corev1.TolerationOpExists})}, want: []string{}},
		"C8 the operator tolerates another effect": {in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()},
			Operator: operatorWith(corev1.Toleration{Key: "holdfast.dev/unchained", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})},
			want: []string{"OperatorIntolerant"}},
		"C8 KPR and no address for our pods": {in: cilium(KeyKubeProxyReplacement, "true", KeySocketLBHostOnly, "true"),
			expect: func(e *Expect) { e.APIAddress = false }, want: []string{"KubeAPIAddressMissing"}, fix: "kubernetesApi.host"},
		"C8 no KPR and no address is fine": {in: cilium(), expect: func(e *Expect) { e.APIAddress = false }, want: []string{}},
		"no Cilium yet":                    {in: &Cilium{Namespace: "kube-system"}, want: []string{"CiliumMissing"}},
		"an agent without its configuration": {in: &Cilium{Namespace: "kube-system", DaemonSet: daemonSet(nil)},
			want: []string{"ConfigMapNotReferenced", "WriteConfEmpty", "CiliumMissing"}},
		"another spelling of true":               {in: cilium(KeyExclusive, "True"), want: []string{"SettingSpelling"}, says: `cni-exclusive is "True"`, fix: "cni.exclusive=true"},
		"an empty boolean":                       {in: cilium(KeyDebug, ""), want: []string{"SettingInvalid"}, says: `debug is ""`, fix: "debug.enabled=false"},
		"a spelling that a script does not read": {in: cilium(KeyUninstall, "yes"), want: []string{"SettingSpelling"}},
		"a huge value is shortened":              {in: cilium(KeyDebug, strings.Repeat("x", 1<<20)), want: []string{"SettingInvalid"}, says: `xxx"…`},
		"a source nobody knows": {in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()}, DaemonSet: daemonSet(func(p *corev1.PodSpec) {
			p.InitContainers[0].Args = []string{"--source", "secret:x"}
		})}, want: []string{"SourceInvalid"}, says: `"secret:x": no such kind`},
		"a source that is not there": {in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()}, DaemonSet: daemonSet(func(p *corev1.PodSpec) {
			p.InitContainers[0].Args = []string{"--source=config-map:cilium-config,config-map:more"}
		})}, want: []string{"SourceInvalid"}, says: "is named by daemon.configSources but is not there"},
		"a list that one ConfigMap cannot be for all nodes": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()},
				NodeConfigs: []*ciliumv2.CiliumNodeConfig{nodeConfig("x", nil, KeyReadConf, "/tmp/cni-configuration/b", KeyChainingMode, "portmap")}},
			want: []string{"ChainingModeDiffers", "ConfigMapKeyDiffers"}},
		"a selector that cannot be read": {
			in: &Cilium{Namespace: "kube-system", ConfigMaps: []*corev1.ConfigMap{config()}, Nodes: []Node{{Name: "n1"}},
				NodeConfigs: []*ciliumv2.CiliumNodeConfig{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}, Spec: ciliumv2.CiliumNodeConfigSpec{
					Defaults:     map[string]string{KeyDebug: "true"},
					NodeSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}}}},
			want: []string{"NodeConfigInvalid"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := expect
			if test.expect != nil {
				test.expect(&e)
			}
			got := Check(test.in, e)
			if diff := cmp.Diff(test.want, brief(got)); diff != "" {
				t.Fatalf("%s\n%v", diff, got)
			}
			if len(got) == 0 {
				return
			}
			if !strings.Contains(got[0].Message, test.says) {
				t.Errorf("message %q does not say %q", got[0].Message, test.says)
			}
			if !strings.Contains(got[0].Fix.String(), test.fix) {
				t.Errorf("fix %q does not say %q", got[0].Fix, test.fix)
			}
			for _, f := range got {
				if f.Object == "" || f.Fix.String() == "" || strings.Contains(f.String(), "%!") || len(f.Message) > 400 {
					t.Errorf("incomplete finding: %+v", f)
				}
			}
		})
	}
}

// C8: a configuration newer than an agent's pod is intent, not state.
func TestCheckFindsAgentsOlderThanTheirConfiguration(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	stamp := metav1.NewTime(at)
	c := cilium()
	c.ConfigMaps[0].ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "helm", Time: &stamp, FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:debug":{}}}`)},
	}
	c.Agents = []Agent{{Node: "new", Started: at.Add(time.Second)}, {Node: "old", Started: at.Add(-time.Second)}, {Node: "starting"}}
	if diff := cmp.Diff([]string{"AgentOutdated old"}, brief(Check(c, expect))); diff != "" {
		t.Error(diff)
	}
	later := metav1.NewTime(at.Add(time.Hour))
	c.ConfigMaps[0].ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:metadata":{}}`)
	c.ConfigMaps[0].ManagedFields[0].Time = &later
	if got := Check(c, expect); len(got) != 0 {
		t.Errorf("a change of labels alone counts: %v", got)
	}
}

func TestFindingsThatNeedNoHelm(t *testing.T) {
	c := cilium(KeyKubeProxyReplacement, "true")
	c.ConfigMaps[0].Annotations = nil
	got := Check(c, expect)
	want := `kubectl --namespace kube-system patch configmap cilium-config --type merge --patch '{"data":{"bpf-lb-sock-hostns-only":"true"}}' && kubectl --namespace kube-system rollout restart daemonset/cilium`
	if len(got) != 1 || got[0].Fix.Command != want {
		t.Errorf("got %v, want the fix %s", got, want)
	}
}

func TestFindingTextShortensLongNodeLists(t *testing.T) {
	f := Finding{ID: AgentOutdated, Severity: Warning, Object: "o", Message: "m", Nodes: []string{"a", "b", "c", "d", "e", "f", "g"}, Fix: Fix{Value: "x=y"}}
	want := "warning AgentOutdated: o: m (nodes a, b, c, d, e and 2 more)\n  fix: set x=y"
	if diff := cmp.Diff(want, f.String()); diff != "" {
		t.Error(diff)
	}
}

func TestSortPutsTheWorstFirst(t *testing.T) {
	findings := []Finding{{ID: "B", Severity: Info}, {ID: "B", Severity: Error}, {ID: "A", Severity: Warning}, {ID: "A", Severity: Error}}
	Sort(findings)
	got := brief(findings)
	if !slices.Equal(got, []string{"A", "B", "A", "B"}) || findings[3].Severity != Info {
		t.Error(findings)
	}
}
