package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// node is one of a large cloud cluster, as big as those are: some 15 labels, controllers' annotations, fifty images in its
// status. Ten nodes share a CiliumNodeConfig.
func node(i int) *corev1.Node {
	name := fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", i/65536, i/256%256, i%256)
	zone := "eu-central-1" + string(rune('a'+i%3))
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
				"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
				"node.kubernetes.io/instance-type": "m6i.4xlarge", "beta.kubernetes.io/instance-type": "m6i.4xlarge",
				"topology.kubernetes.io/region": "eu-central-1", "topology.kubernetes.io/zone": zone,
				"failure-domain.beta.kubernetes.io/region": "eu-central-1", "failure-domain.beta.kubernetes.io/zone": zone,
				"topology.ebs.csi.example.com/zone": zone, "node.example.com/pool": fmt.Sprintf("pool-%d", i%nodeConfigs),
				"node.example.com/image": "image-0123456789abcdef0", "holdfast.dev/node": "true",
			},
			Annotations: map[string]string{
				"node.alpha.kubernetes.io/ttl":                           "0",
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
				"csi.volume.kubernetes.io/nodeid":                        fmt.Sprintf(`{"ebs.csi.example.com":"i-%017x","efs.csi.example.com":"i-%017x"}`, i, i),
				"network.cilium.io/ipv4-pod-cidr":                        fmt.Sprintf("10.%d.%d.0/24", 64+i/256, i%256),
				"network.cilium.io/ipv4-cilium-host":                     fmt.Sprintf("10.%d.%d.7", 64+i/256, i%256),
				"alpha.kubernetes.io/provided-node-ip":                   fmt.Sprintf("10.%d.%d.%d", i/65536, i/256%256, i%256),
			},
		},
		Spec:   corev1.NodeSpec{ProviderID: fmt.Sprintf("cloud:///%s/i-%017x", zone, i), PodCIDR: fmt.Sprintf("10.%d.%d.0/24", 64+i/256, i%256)},
		Status: status(i),
	}
}

func status(i int) corev1.NodeStatus {
	s := corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", i/65536, i/256%256, i%256)}},
		NodeInfo: corev1.NodeSystemInfo{KernelVersion: "6.18.0", OSImage: "Linux", ContainerRuntimeVersion: "containerd://2.2.0",
			KubeletVersion: "v1.36.2", OperatingSystem: "linux", Architecture: "amd64"},
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110"),
		"ephemeral-storage": resource.MustParse("200Gi"), "hugepages-2Mi": resource.MustParse("0")}
	s.Capacity, s.Allocatable = amounts, amounts
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		s.Conditions = append(s.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "KubeletSays",
			Message: "kubelet says so at length", LastHeartbeatTime: started, LastTransitionTime: started})
	}
	for image := range 50 { // the kubelet's default --node-status-max-images
		repository := fmt.Sprintf("registry.example.com/platform/component-%02d", image)
		s.Images = append(s.Images, corev1.ContainerImage{SizeBytes: int64(10_000_000 + image),
			Names: []string{repository + "@sha256:" + strings.Repeat(fmt.Sprintf("%02x", image), 32), repository + ":v1.2.3"}})
	}
	return s
}
