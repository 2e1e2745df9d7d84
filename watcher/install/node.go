package install

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// fieldManager owns what is written to the Node.
const fieldManager = "holdfast-install-cni"

// writeTime bounds one write to the API server.
const writeTime = 5 * time.Second

// nodeWriter makes the Node say what is so.
type nodeWriter struct {
	kube    kubernetes.Interface
	feed    *feed.Feed
	name    string
	metrics *metrics
	last    *corev1.Node // as the last write returned it; nil: the feed knows better
}

// node is the Node as last seen, ours or anybody's write; false where it is not known.
func (n *nodeWriter) node() (*corev1.Node, bool) {
	if n.last != nil && n.feed.Behind() {
		return n.last, true
	}
	n.last = nil
	return feed.One[*corev1.Node](n.feed)
}

// write makes the Node say what is wanted, labels and taint first. A conflict is tried again on what is there then.
func (n *nodeWriter) write(ctx context.Context, want wanted) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	node, found := n.node()
	if !found {
		return nil
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if err = n.patch(ctx, node, want); apierrors.IsConflict(err) {
			if fresh, failed := n.kube.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{}); failed == nil {
				node = fresh
			}
		}
		return err
	})
	if err != nil {
		n.metrics.patched("failed")
		return fmt.Errorf("patch Node %s: %w", n.name, err)
	}
	return nil
}

// patch writes labels and taint, then the condition. The last patch of a node that is taken out is that of its labels: they keep
// this pod there.
func (n *nodeWriter) patch(ctx context.Context, node *corev1.Node, want wanted) error {
	labels := func() error {
		return n.send(ctx, &node, types.MergePatchType, want.nodePatch(node))
	}
	status := func() error {
		return n.send(ctx, &node, types.StrategicMergePatchType, want.statusPatch(node, time.Now()), "status")
	}
	steps := []func() error{labels, status}
	if !want.installed {
		steps = []func() error{status, labels}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (n *nodeWriter) send(ctx context.Context, node **corev1.Node, kind types.PatchType, patch []byte, subresource ...string) error {
	if patch == nil {
		return nil
	}
	patched, err := n.kube.CoreV1().Nodes().Patch(ctx, n.name, kind, patch, metav1.PatchOptions{FieldManager: fieldManager}, subresource...)
	if err != nil {
		return err
	}
	*node, n.last = patched, patched
	n.feed.Expect(patched.ResourceVersion)
	n.metrics.patched("written")
	return nil
}
