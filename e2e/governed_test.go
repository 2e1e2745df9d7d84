//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-cni/holdfast/e2e/lab"
	"github.com/holdfast-cni/holdfast/watcher"
)

// governedPlugin are the chart's values for a cluster that governs a namespace.
func governedPlugin(sidecar string) map[string]any {
	_, digest, _ := strings.Cut(sidecar, "@")
	return map[string]any{"plugin": map[string]any{
		"resolvers": []any{"10.96.0.10"}, "governedNamespaces": []any{governed}, "allowPrivate": []any{"10.244.0.0/16"},
		"sidecar": map[string]any{"images": []any{digest}},
	}}
}

// served is an address that servePods serves on a node.
func served(ctx context.Context, l *lab.Lab, node *lab.Node) string {
	GinkgoHelper()
	pod, err := l.Kube.CoreV1().Pods("talk").Get(ctx, "pod-"+node.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return "http://" + pod.Status.PodIP + ":8080/"
}

func startsGoverned(ctx context.Context, l *lab.Lab, pod *corev1.Pod) {
	GinkgoHelper()
	_, err := l.Kube.CoreV1().Pods(governed).Create(ctx, pod, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(podReady).WithContext(ctx).WithArguments(l, governed, pod.Name).Should(BeTrue())
}

func governedNamespace(ctx context.Context, l *lab.Lab) {
	GinkgoHelper()
	_, err := l.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: governed}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		_, err := l.Kube.CoreV1().ServiceAccounts(governed).Get(ctx, "default", metav1.GetOptions{})
		return err
	}).WithContext(ctx).Should(Succeed())
}

// governedPod keeps the contract. Its workload floods a Service address from its first instruction.
func governedPod(name, node, sidecar string) *corev1.Pod {
	context := func(user int64) *corev1.SecurityContext {
		return &corev1.SecurityContext{RunAsUser: &user, RunAsGroup: &user, RunAsNonRoot: ptr(true), AllowPrivilegeEscalation: ptr(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64), AutomountServiceAccountToken: ptr(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			InitContainers: []corev1.Container{{Name: "sidecar", Image: sidecar, ImagePullPolicy: corev1.PullNever, Args: []string{"serve", ":15021"},
				RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways), SecurityContext: context(64128),
				StartupProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 60, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(15021)}}}}},
			Containers: []corev1.Container{{Name: "work", Image: sidecar, ImagePullPolicy: corev1.PullNever,
				Args: []string{"flood", fmt.Sprintf("10.244.0.1:%d", floodTo)}, SecurityContext: context(1000)}},
		},
	}
}

// agentsReady counts the agents that are.
func agentsReady(ctx context.Context, l *lab.Lab) (int, error) {
	pods, err := l.Kube.CoreV1().Pods(ours).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=agent"})
	if err != nil {
		return -1, err
	}
	count := 0
	for _, pod := range pods.Items {
		if ready(pod) {
			count++
		}
	}
	return count, nil
}

func annotation(ctx context.Context, l *lab.Lab, namespace, pod, key string) string {
	p, err := l.Kube.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return p.Annotations[key]
}

func ptr[T any](value T) *T { return &value }

// pulsing is a governed pod whose sidecar asks a URL over one connection for as long as it lives.
func pulsing(name, node, sidecar, url string) *corev1.Pod {
	pod := governedPod(name, node, sidecar)
	pod.Spec.InitContainers[0].Args = []string{"pulse", ":15021", url}
	return pod
}

// pulse is what came of it; an error once the connection was lost.
func pulse(ctx context.Context, l *lab.Lab, pod string) (string, error) {
	return l.ExecIn(ctx, governed, pod, "sidecar", "/probe", "get", "http://127.0.0.1:15021/")
}

// leaseless are the packets that a pod lost for want of a lease, by counter.
func leaseless(ctx context.Context, l *lab.Lab, node *lab.Node, name string) map[string]string {
	GinkgoHelper()
	pod, err := l.Kube.CoreV1().Pods(governed).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	out, err := node.Shell(ctx, fmt.Sprintf(`for n in /run/netns/*; do
	if nsenter --net=$n ip -oneline address | grep -qF " %s/"; then nsenter --net=$n nft list counters table inet holdfast; fi
done`, pod.Status.PodIP))
	Expect(err).NotTo(HaveOccurred())
	counters := map[string]string{}
	for _, match := range regexp.MustCompile(`counter (lease_\w+) {\s*packets (\d+)`).FindAllStringSubmatch(out, -1) {
		counters[match[1]] = match[2]
	}
	Expect(counters).To(HaveLen(2), out)
	return counters
}

// proof is a field of what was proved of a governed pod.
func proof(ctx context.Context, l *lab.Lab, pod, field string) string {
	for _, word := range strings.Fields(annotation(ctx, l, governed, pod, watcher.ProofAnnotation)) {
		if value, found := strings.CutPrefix(word, field+"="); found {
			return value
		}
	}
	return ""
}

// everNot watches the Nodes, and returns what any of them has said until now other than that.
func everNot(ctx context.Context, l *lab.Lab, want string) func() []string {
	GinkgoHelper()
	watch, err := l.Kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watch.Stop)
	var mu sync.Mutex
	var others []string
	add := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		others = append(others, text)
	}
	go func() {
		for event := range watch.ResultChan() {
			if node, ok := event.Object.(*corev1.Node); !ok {
				add(fmt.Sprint(event.Object))
			} else if said := says(node); said != want {
				add(node.Name + ": " + said)
			}
		}
		add("the watch has ended")
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return others
	}
}

// rolled reports whether every pod of a DaemonSet is of its last version, and available.
func rolled(ctx context.Context, l *lab.Lab, name string) bool {
	ds, err := l.Kube.AppsV1().DaemonSets(ours).Get(ctx, name, metav1.GetOptions{})
	return err == nil && ds.Status.ObservedGeneration == ds.Generation && ds.Status.DesiredNumberScheduled > 0 &&
		ds.Status.UpdatedNumberScheduled == ds.Status.DesiredNumberScheduled && ds.Status.NumberAvailable == ds.Status.DesiredNumberScheduled
}
