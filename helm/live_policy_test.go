package helm_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (l *live) pod(t *testing.T, ns, name, app string) {
	t.Helper()
	_, err := l.admin.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"k8s-app": app}, Annotations: map[string]string{"keep": "me"},
			Finalizers: []string{"example.com/hold"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, NodeName: "n"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (l *live) patch(ctx context.Context, ns, pod, body string, dryRun ...string) error {
	_, err := l.watcher.CoreV1().Pods(ns).Patch(ctx, pod, types.MergePatchType, []byte(body),
		metav1.PatchOptions{FieldManager: "holdfast-watcher", DryRun: dryRun}, "status")
	return err
}

func (l *live) fastSync(t *testing.T) {
	if _, err := l.admin.CoreV1().ServiceAccounts("kube-system").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.pod(t, "kube-system", "agent", "cilium")
	l.pod(t, "kube-system", "other", "cilium-envoy")

	const probe = `{"metadata":{"annotations":{"holdfast.dev/probe":"x"}}}`
	l.waitForPolicy(t, probe)

	for _, allowed := range []string{
		`{"metadata":{"annotations":{"holdfast.dev/sync":"1"}}}`,
		`{"metadata":{"annotations":{"holdfast.dev/sync":"2"}}}`,
		`{"metadata":{"annotations":{"holdfast.dev/sync":null}}}`,
	} {
		if err := l.patch(t.Context(), "kube-system", "agent", allowed); err != nil {
			t.Errorf("%s: %v", allowed, err)
		}
	}
	for _, refused := range []struct{ pod, body, says string }{
		{"agent", probe, "no annotation but holdfast.dev/sync"},
		{"agent", `{"metadata":{"annotations":{"keep":"not"}}}`, "no annotation but holdfast.dev/sync"},
		{"agent", `{"metadata":{"annotations":{"keep":null}}}`, "no annotation but holdfast.dev/sync"},
		{"agent", `{"metadata":{"annotations":null}}`, "no annotation but holdfast.dev/sync"},
		{"agent", `{"metadata":{"annotations":{"holdfast.dev/sync":"` + strings.Repeat("x", 129) + `"}}}`, "the annotation holdfast.dev/sync holds at most 128 characters"},
		{"agent", `{"metadata":{"labels":{"x":"y"}}}`, "no label, finalizer, owner"},
		{"agent", `{"metadata":{"labels":null}}`, "no label, finalizer, owner"},
		{"agent", `{"metadata":{"finalizers":null}}`, "no label, finalizer, owner"},
		{"agent", `{"metadata":{"finalizers":["example.com/hold","example.com/other"]}}`, "no label, finalizer, owner"},
		{"agent", `{"metadata":{"generateName":"g-"}}`, "no label, finalizer, owner"},
		{"agent", `{"status":{"phase":"Failed"}}`, "the status may not change"},
		{"agent", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "the status may not change"},
		{"other", `{"metadata":{"annotations":{"holdfast.dev/sync":"1"}}}`, "only Cilium's agents in namespace kube-system"},
		{"other", `{"metadata":{"labels":{"k8s-app":"cilium"}}}`, "only Cilium's agents in namespace kube-system"},
	} {
		err := l.patch(t.Context(), "kube-system", refused.pod, refused.body, metav1.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied request: holdfast fast sync: "+refused.says) {
			t.Errorf("%s %s: %v", refused.pod, refused.body, err)
		}
	}
	if _, err := l.admin.CoreV1().Pods("kube-system").Patch(t.Context(), "agent", types.MergePatchType,
		[]byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("the policy must hold nobody but the watcher: %v", err)
	}
}

// waitForPolicy waits until the API server, which reads policies with some delay, has this one in force.
func (l *live) waitForPolicy(t *testing.T, probe string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := l.patch(t.Context(), "kube-system", "agent", probe, metav1.DryRunAll)
		if apierrors.IsForbidden(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy is not in force after 30 s: %v", err)
		}
	}
}
