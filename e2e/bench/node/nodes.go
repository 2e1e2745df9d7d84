package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-cni/holdfast/watcher"
)

// node is one of a large cloud cluster, as big as those are: many labels, a controller's annotation, fifty images in its status.
func node(name string, i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"node.kubernetes.io/instance-type": "m6i.4xlarge", "topology.kubernetes.io/region": "eu-central-1",
			"topology.kubernetes.io/zone": "eu-central-1" + string(rune('a'+i%3)), "holdfast.dev/node": "",
		},
		Annotations: map[string]string{"csi.volume.kubernetes.io/nodeid": fmt.Sprintf(`{"ebs.csi.example.com":"i-%017x","efs.csi.example.com":"i-%017x"}`, i, i)},
	}}
	for label := range 8 {
		n.Labels[fmt.Sprintf("node.example.com/label-%d", label)] = strings.Repeat("v", 20)
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	n.Status.Capacity, n.Status.Allocatable = amounts, amounts
	started := metav1.NewTime(time.Now().Add(-24 * time.Hour))
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "KubeletSays",
			Message: "kubelet says so at length", LastHeartbeatTime: started, LastTransitionTime: started})
	}
	for image := range 50 { // the kubelet's default --node-status-max-images
		repository := fmt.Sprintf("registry.example.com/platform/component-%02d", image)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: int64(10_000_000 + image),
			Names: []string{repository + "@sha256:" + strings.Repeat(fmt.Sprintf("%02x", image), 32), repository + ":v1.2.3"}})
	}
	return n
}

// unlimited is an admin's client that is limited by the API server alone.
func (c *cluster) unlimited() (kubernetes.Interface, error) {
	config := rest.CopyConfig(c.plane.Config)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return kube, nil
}

func fill(ctx context.Context, kube kubernetes.Interface) error {
	return each(ctx, nodes-1, func(ctx context.Context, i int) error {
		if _, err := kube.CoreV1().Nodes().Create(ctx, node(other(i), i), metav1.CreateOptions{FieldManager: "kubelet"}); err != nil {
			return fmt.Errorf("make Node %s: %w", other(i), err)
		}
		return nil
	})
}

func other(i int) string {
	return fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/256, i%256)
}

func annotate(ctx context.Context, kube kubernetes.Interface, name, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/changed":%q},"labels":{%q:"true"}}}`, value, watcher.NodeLabel)
	if _, err := kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubelet"}); err != nil {
		return fmt.Errorf("change Node %s: %w", name, err)
	}
	return nil
}

// each does something n times, some at once.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
