package helm_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/helm"
)

// leave does to the ConfigMap what `holdfast leave` does.
func (l *live) leave(t *testing.T) {
	t.Helper()
	_, err := l.admin.CoreV1().ConfigMaps(namespace).Patch(t.Context(), "rel-holdfast", types.MergePatchType,
		[]byte(`{"data":{"state":null,"leaving":"true"}}`), metav1.PatchOptions{FieldManager: "holdfast-watcher"})
	if err != nil {
		t.Fatal(err)
	}
}

func (l *live) wantState(t *testing.T, want string) {
	t.Helper()
	config, err := l.admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "rel-holdfast", metav1.GetOptions{})
	if err != nil || config.Data["state"] != want {
		t.Errorf("state %q, want %q: %v", config.Data["state"], want, err)
	}
}

func (l *live) upgradeEndsLeaving(t *testing.T) {
	l.leave(t)
	l.wantState(t, "")
	c, err := helm.Chart()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := helm.Upgrade(t.Context(), l.config, c, l.options(t)); err != nil {
		t.Fatal(err)
	}
	l.wantState(t, "installed")
}

// failLeaveJob is the kubelet and the Job controller of this control plane: the Job ran and failed.
func (l *live) failLeaveJob(ctx context.Context) error {
	jobs := l.admin.BatchV1().Jobs(namespace)
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		job, err := jobs.Get(ctx, "rel-leave", metav1.GetOptions{})
		if err != nil {
			continue
		}
		now := metav1.Now()
		job.Status = batchv1.JobStatus{StartTime: &now, Failed: 1, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue},
			{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: now},
		}}
		_, err = jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{})
		return err
	}
	return ctx.Err()
}

func (l *live) failedUninstallRollsBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- l.failLeaveJob(ctx) }()
	o := l.options(t)
	o.DisableHooks = false
	if err := helm.Uninstall(ctx, l.config, o); err == nil || !strings.Contains(err.Error(), "rel-leave") {
		t.Fatalf("a failed Job must stop the uninstall and be named: %v", err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	l.leave(t)

	c, err := helm.Chart()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := helm.Upgrade(t.Context(), l.config, c, o); err == nil {
		t.Error("Helm upgrades after a failed uninstall: the notes need not name rollback any more")
	}
	cfg := action.NewConfiguration(func(c *action.Configuration) { c.SetLogger(slog.DiscardHandler) })
	if err := cfg.Init(helm.NewGetter(l.config, namespace), namespace, "secrets"); err != nil {
		t.Fatal(err)
	}
	rollback := action.NewRollback(cfg)
	rollback.Version, rollback.ServerSideApply, rollback.WaitStrategy = 2, "auto", kube.HookOnlyStrategy
	if err := rollback.Run("rel"); err != nil {
		t.Fatal(err)
	}
	l.wantState(t, "installed")
}

func (l *live) uninstalls(t *testing.T) {
	if err := helm.Uninstall(t.Context(), l.config, l.options(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "holdfast-cni-config", metav1.GetOptions{}); err != nil {
		t.Errorf("Cilium's list: %v", err)
	}
	left, err := l.admin.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=rel"})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("ConfigMaps left: %v %v", left.Items, err)
	}
	policies, err := l.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(policies.Items) != 0 {
		t.Errorf("policies left: %v %v", policies.Items, err)
	}
}
