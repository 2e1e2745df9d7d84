package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// fieldManager owns what is written to pods.
const fieldManager = "holdfast-agent"

const (
	markTime   = 5 * time.Second  // for one write
	markPause  = time.Second      // after one that failed, doubled up to
	markPauses = 30 * time.Second // this
)

// marks writes annotations of pods, in the background: nothing waits for the API server. What can't be written now is tried until
// the pod is gone. It goes through pods/status, with which nothing else of a pod can be changed.
type marks struct {
	kube  kubernetes.Interface
	limit *rate.Limiter

	mu    sync.Mutex
	open  map[types.UID]*mark
	woken chan struct{}
}

type mark struct {
	namespace, name string
	uid             types.UID
	annotations     map[string]string
}

func newMarks(kube kubernetes.Interface) *marks {
	return &marks{kube: kube, limit: rate.NewLimiter(20, 40), open: map[types.UID]*mark{}, woken: make(chan struct{}, 1)}
}

// set is to make a pod carry an annotation. The pod is as it was last seen.
func (m *marks) set(pod *corev1.Pod, key, value string) {
	if pod == nil || pod.Annotations[key] == value {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := m.open[pod.UID]
	if wanted == nil {
		wanted = &mark{pod.Namespace, pod.Name, pod.UID, map[string]string{}}
		m.open[pod.UID] = wanted
	}
	wanted.annotations[key] = value
	select {
	case m.woken <- struct{}{}:
	default: // it is awake
	}
}

// pending is how many pods are still to be written.
func (m *marks) pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.open)
}

// run writes until the context ends.
func (m *marks) run(ctx context.Context) {
	pause := markPause
	for {
		var again <-chan time.Time
		if failed := m.writeAll(ctx); failed {
			again = time.After(pause)
			pause = min(2*pause, markPauses)
		} else {
			pause = markPause
		}
		select {
		case <-ctx.Done():
			return
		case <-m.woken:
		case <-again:
		}
	}
}

func (m *marks) writeAll(ctx context.Context) (failed bool) {
	m.mu.Lock()
	todo := make([]mark, 0, len(m.open))
	for _, wanted := range m.open {
		copied := *wanted
		copied.annotations = maps.Clone(wanted.annotations)
		todo = append(todo, copied)
	}
	m.mu.Unlock()
	for _, wanted := range todo {
		if m.limit.Wait(ctx) != nil {
			return true
		}
		if err := m.write(ctx, wanted); err != nil {
			slog.Warn("pod not annotated yet", "namespace", wanted.namespace, "pod", wanted.name, "reason", err.Error())
			failed = true
			continue
		}
		m.done(wanted)
	}
	return failed
}

// write changes the annotations of the pod of that UID, and of none that has its name since.
func (m *marks) write(ctx context.Context, wanted mark) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": wanted.uid, "annotations": wanted.annotations}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, markTime)
	defer cancel()
	_, err = m.kube.CoreV1().Pods(wanted.namespace).Patch(ctx, wanted.name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone
	}
	if err != nil {
		return fmt.Errorf("patch the status of pod %s/%s: %w", wanted.namespace, wanted.name, err)
	}
	return nil
}

// done forgets what was written, unless more is wanted by now.
func (m *marks) done(written mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wanted := m.open[written.uid]; wanted != nil && maps.Equal(wanted.annotations, written.annotations) {
		delete(m.open, written.uid)
	}
}
