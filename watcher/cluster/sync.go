package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// askAgain is how long a policy that is not in force is left alone at first; each time it is found so again, twice as long,
// up to the resync.
const askAgain = time.Second

// policyPrefix starts every refusal by the ValidatingAdmissionPolicy that bounds the fast sync.
const policyPrefix = "holdfast fast sync:"

// syncer asks kubelets to sync a changed list at once. A kubelet syncs a pod's volumes when the pod changes, so one
// annotation, patched through pods/status of Cilium's pods, takes the place of up to a minute's wait.
type syncer struct {
	options *Options
	kube    kubernetes.Interface
	world   *world
	metrics *metrics
	limit   *rate.Limiter

	next  time.Time     // before this a policy that is not in force is left alone
	pause time.Duration // until then, 0 while it is in force

	mu      sync.Mutex
	unbound string // why it is off, or ""
	done    func()
}

// Reconcile patches each pod that has not been asked for the present list.
func (s *syncer) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	list, found := feed.One[*corev1.ConfigMap](s.world.list)
	if !s.options.FastSync || !found || !s.world.settled() || !s.mounted() {
		return reconcile.Result{}, nil
	}
	digest := list.Annotations[configmap.DigestAnnotation]
	owner := configmap.OwnerOf(list, s.options.release(), "")
	if digest == "" || owner != configmap.Ours && owner != configmap.Released {
		return reconcile.Result{}, nil
	}
	changed := configmap.LastChange(list.CreationTimestamp.Time, list.ManagedFields)
	var stale []*corev1.Pod
	for _, pod := range feed.All[*corev1.Pod](s.world.pods) {
		// A pod that started after the change was mounted the list as it is.
		old := pod.Status.StartTime != nil && !pod.Status.StartTime.Time.After(changed)
		if old && pod.Status.Phase == corev1.PodRunning && pod.Annotations[watcher.SyncAnnotation] != digest {
			stale = append(stale, pod)
		}
	}
	if len(stale) == 0 {
		return reconcile.Result{}, nil
	}
	if wait := time.Until(s.next); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if why := s.bound(ctx, stale[0]); why != "" {
		s.pause = min(max(askAgain, 2*s.pause), resync)
		s.next = time.Now().Add(s.pause)
		s.off(why)
		return reconcile.Result{RequeueAfter: s.pause}, nil
	}
	s.pause = 0
	s.off("")
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, pod := range stale {
		group.Go(func() error { return s.ask(ctx, pod, digest) })
	}
	err := group.Wait()
	slog.InfoContext(ctx, "fast sync", "pods", len(stale), "digest", digest)
	return reconcile.Result{}, err
}

// mounted reports whether Cilium's pods mount the list's ConfigMap at all.
func (s *syncer) mounted() bool {
	ds, found := feed.One[*appsv1.DaemonSet](s.world.cilium.DaemonSet)
	if !found {
		return false
	}
	for _, volume := range ds.Spec.Template.Spec.Volumes {
		if volume.ConfigMap != nil && volume.ConfigMap.Name == s.options.ConfigMap {
			return true
		}
	}
	return false
}

// bound asks the API server, in a dry run, for what the policy must refuse. Only its refusal is proof that the policy is
// there, bound, and in force; the answer is why not, or "".
func (s *syncer) bound(ctx context.Context, pod *corev1.Pod) string {
	err := s.patch(ctx, pod, "holdfast.dev/not-allowed", "true", metav1.DryRunAll)
	switch {
	case err != nil && strings.Contains(err.Error(), policyPrefix):
		return ""
	case err != nil:
		return errorText(err)
	default:
		return "the API server would let the watcher patch more than one annotation"
	}
}

// ask patches one pod. A pod that is gone needs no list.
func (s *syncer) ask(ctx context.Context, pod *corev1.Pod, digest string) error {
	if err := s.limit.Wait(ctx); err != nil {
		return err
	}
	err := s.patch(ctx, pod, watcher.SyncAnnotation, digest)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		s.metrics.fastSynced("failed")
		return fmt.Errorf("patch status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.metrics.fastSynced("asked")
	return nil
}

func (s *syncer) patch(ctx context.Context, pod *corev1.Pod, annotation, value string, dryRun ...string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{annotation: value}}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	_, err = s.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body,
		metav1.PatchOptions{DryRun: dryRun, FieldManager: watcher.FieldManager}, "status")
	return err
}

func (s *syncer) off(why string) {
	s.mu.Lock()
	changed := s.unbound != why
	s.unbound = why
	s.mu.Unlock()
	if changed {
		s.done()
	}
}

// findings says why fast sync is off although it is wanted.
func (s *syncer) findings() []configmap.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unbound == "" {
		return nil
	}
	return []configmap.Finding{{ID: configmap.FastSyncUnbound, Severity: configmap.Info,
		Object:  fmt.Sprintf("DaemonSet %s/cilium", s.options.CiliumNamespace),
		Message: "a changed list reaches nodes only with the kubelet's own sync, within about a minute: " + s.unbound,
		Fix: configmap.Fix{Value: "fastSync.policy=true (Holdfast's chart)",
			Command: "have an admin install the policy that bounds it, or set fastSync.enabled=false"}}}
}
