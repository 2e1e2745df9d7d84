package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/watcher"
)

// The functions here keep what is looked at: memory stays small in a large cluster, and a heartbeat is no event.

func stripNode(obj any) (any, error) {
	node, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, Labels: node.Labels, Annotations: pick(node.Annotations, "config.cilium.io/"),
	}}, nil
}

func stripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: pick(pod.Annotations, watcher.SyncAnnotation)},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, StartTime: pod.Status.StartTime},
	}, nil
}

func pick(all map[string]string, prefix string) map[string]string {
	var picked map[string]string
	for name, value := range all {
		if strings.HasPrefix(name, prefix) {
			if picked == nil {
				picked = map[string]string{}
			}
			picked[name] = value
		}
	}
	return picked
}
