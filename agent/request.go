package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-cni/holdfast/watcher"
)

// ErrNotConfirmed means that no agent said in time that the pod was cut off.
var ErrNotConfirmed = errors.New("not confirmed")

// RequestCut asks the agent of a pod's node to cut the pod off for good, and returns what the agent says once it has. It takes the
// right to get and to patch the pod. Until ctx ends it waits; then it is ErrNotConfirmed, and the request stands.
func RequestCut(ctx context.Context, kube kubernetes.Interface, namespace, name, reason string) (said string, err error) {
	pods := kube.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get pod %s/%s: %w", namespace, name, err)
	}
	if said := pod.Annotations[watcher.CutOffAnnotation]; said != "" {
		return said, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{watcher.CutAnnotation: strings.Join(strings.Fields(reason), " ")},
	}})
	if err != nil {
		return "", err
	}
	if _, err := pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "holdfast-cut"}); err != nil {
		return "", fmt.Errorf("annotate pod %s/%s: %w", namespace, name, err)
	}
	var seen *corev1.Pod
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		now, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, nil // asked again
		}
		seen = now
		return now.UID != pod.UID || now.Annotations[watcher.CutOffAnnotation] != "", nil
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("pod %s/%s on Node %s: %w: see that it is governed and that the DaemonSet agent runs on that node; the request stands",
			namespace, name, pod.Spec.NodeName, ErrNotConfirmed)
	case seen.UID != pod.UID:
		return "", fmt.Errorf("pod %s/%s: it was deleted meanwhile, and another has its name", namespace, name)
	}
	return seen.Annotations[watcher.CutOffAnnotation], nil
}
