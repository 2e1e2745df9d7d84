package configmap

import (
	"testing"

	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestC5ReadsOurConfigMapOnThisNode(t *testing.T) {
	const dir = "/tmp/cni-configuration"
	agent := func(configMap string) *appsv1.DaemonSet {
		ds := &appsv1.DaemonSet{}
		ds.Spec.Template.Spec = corev1.PodSpec{
			Containers: []corev1.Container{{Name: "cilium-agent", VolumeMounts: []corev1.VolumeMount{{Name: "list", MountPath: dir}}}},
			Volumes: []corev1.Volume{{Name: "list", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}}}},
		}
		return ds
	}
	config := func(pairs ...string) []*corev1.ConfigMap {
		data := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			data[pairs[i]] = pairs[i+1]
		}
		return []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: DefaultConfigName}, Data: data}}
	}
	set := config(KeyReadConf, dir+"/cni-config", KeyWriteConf, "/host/etc/cni/net.d/05-cilium.conflist")
	override := []*ciliumv2.CiliumNodeConfig{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "one"},
		Spec: ciliumv2.CiliumNodeConfigSpec{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "odd"}},
			Defaults: map[string]string{KeyReadConf: ""}}}}
	node, odd := Node{Name: "a"}, Node{Name: "b", Labels: map[string]string{"pool": "odd"}}
	for name, test := range map[string]struct {
		cilium Cilium
		node   Node
		want   bool
	}{
		"ours":                         {Cilium{ConfigMaps: set, DaemonSet: agent("ours")}, node, true},
		"another":                      {Cilium{ConfigMaps: set, DaemonSet: agent("other")}, node, false},
		"the defaults":                 {Cilium{ConfigMaps: config(), DaemonSet: agent("ours")}, node, false},
		"nothing is written":           {Cilium{ConfigMaps: config(KeyReadConf, dir+"/cni-config"), DaemonSet: agent("ours")}, node, false},
		"not mounted":                  {Cilium{ConfigMaps: set, DaemonSet: &appsv1.DaemonSet{}}, node, false},
		"no DaemonSet":                 {Cilium{ConfigMaps: set}, node, false},
		"another node is overridden":   {Cilium{ConfigMaps: set, DaemonSet: agent("ours"), NodeConfigs: override}, node, true},
		"overridden for this one only": {Cilium{ConfigMaps: set, DaemonSet: agent("ours"), NodeConfigs: override}, odd, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.cilium.Namespace = "kube-system"
			if got := test.cilium.Reads(test.node, "ours"); got != test.want {
				t.Errorf("reads = %v, want %v", got, test.want)
			}
		})
	}
}
