//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/e2e/lab"
	"github.com/holdfast-cni/holdfast/watcher"
)

// opened is what a Node says that is open; see state.
const opened = "true installed True Chained"

// closed is what a Node says that is closed for a reason.
func closed(reason chaining.Reason) string { return "false tainted installed False " + string(reason) }

// state is what the Node says: its label, whether it has our taint and the mark of an installed node, and the condition.
func state(ctx context.Context, l *lab.Lab, node *lab.Node) string {
	n, err := l.Kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return says(n)
}

func says(n *corev1.Node) string {
	text, registered := n.Labels[watcher.NodeLabel]
	if !registered {
		text = "-"
	}
	for _, t := range n.Spec.Taints {
		if t.Key == watcher.Taint {
			text += " tainted"
		}
	}
	if _, installed := n.Labels[watcher.InstalledLabel]; installed {
		text += " installed"
	}
	for _, c := range n.Status.Conditions {
		if c.Type == watcher.ChainedCondition {
			text += fmt.Sprintf(" %s %s", c.Status, c.Reason)
		}
	}
	return text
}

// message is the condition's.
func message(ctx context.Context, l *lab.Lab, node *lab.Node) string {
	n, err := l.Kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, c := range n.Status.Conditions {
		if c.Type == watcher.ChainedCondition {
			return c.Message
		}
	}
	return ""
}

// becomes waits until each Node says so.
func becomes(ctx context.Context, l *lab.Lab, want string, nodes ...*lab.Node) {
	GinkgoHelper()
	for _, node := range nodes {
		Eventually(state).WithContext(ctx).WithArguments(l, node).Should(Equal(want), func() string { return node.Name + ": " + message(ctx, l, node) })
	}
}

// register labels the Nodes, as an operator does.
func register(ctx context.Context, l *lab.Lab, nodes ...*lab.Node) { label(ctx, l, `""`, nodes...) }

func label(ctx context.Context, l *lab.Lab, value string, nodes ...*lab.Node) {
	GinkgoHelper()
	for _, node := range nodes {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, watcher.NodeLabel, value)
		_, err := l.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

// chained reports the plugins that the runtime has loaded, as text, to be polled.
func chained(ctx context.Context, node *lab.Node) string {
	plugins, status, err := node.Loaded(ctx)
	if err != nil {
		return err.Error()
	}
	return status + " " + strings.Join(plugins, " ")
}

// startsPod makes a pod on the node and waits until it serves; then it is deleted, and must go.
func startsPod(ctx context.Context, l *lab.Lab, node *lab.Node, name string) {
	GinkgoHelper()
	Eventually(func() error {
		_, err := l.Kube.CoreV1().Pods("default").Create(ctx, servePod(name, node.Name, nil), metav1.CreateOptions{})
		return err
	}).WithContext(ctx).Should(Succeed())
	Eventually(podReady).WithContext(ctx).WithArguments(l, "default", name).Should(BeTrue())
	Expect(l.Kube.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	goes(ctx, l, "default", name)
}

// goes waits until a pod is gone: none may be stuck Terminating.
func goes(ctx context.Context, l *lab.Lab, namespace, name string) {
	GinkgoHelper()
	Eventually(func() bool {
		_, err := l.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).WithContext(ctx).Should(BeTrue(), "pod %s/%s must not hang Terminating", namespace, name)
}

// installers are install-cni's pods.
func installers(ctx context.Context, l *lab.Lab) ([]corev1.Pod, error) {
	pods, err := l.Kube.CoreV1().Pods(ours).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=install-cni"})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}
