//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-cni/holdfast/e2e/lab"
)

const (
	governed = "governed"
	agent    = "holdfast-agent"
	floodTo  = 9999 // the port that only a flooding workload sends to
)

var _ = describe("governed pods", Ordered, ContinueOnFailure, func() {
	var l *lab.Lab
	var nodes []*lab.Node
	var node *lab.Node
	var digest, sidecar string
	var seen func(context.Context) (string, error)

	BeforeAll(func(ctx SpecContext) {
		l = makeLab(ctx, lab.Options{Name: "e2e-lock", Net: "ptp", Flags: []string{"-nodes", "2"}})
		var err error
		nodes, err = l.Nodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		node = nodes[1]
		digest, err = l.LoadProduct(ctx)
		Expect(err).NotTo(HaveOccurred())
		sidecar, err = l.LoadSidecar(ctx)
		Expect(err).NotTo(HaveOccurred())
		seen, err = node.CountPackets(ctx, floodTo)
		Expect(err).NotTo(HaveOccurred())
		install(ctx, l, nodes[0].Name, digest, generic(governedPlugin(sidecar)))
		register(ctx, l, nodes...)
		becomes(ctx, l, opened, nodes...)
		Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(len(nodes)))
		servePods(ctx, l, nodes, "talk")
		governedNamespace(ctx, l)

		By("having a counter see what a pod sends that is not governed")
		control, err := node.CountPackets(ctx, floodTo-1)
		Expect(err).NotTo(HaveOccurred())
		flood := servePod("flood", node.Name, nil)
		flood.Spec.Containers[0].Args, flood.Spec.Containers[0].ReadinessProbe = []string{"flood", fmt.Sprintf("10.244.0.1:%d", floodTo-1)}, nil
		_, err = l.Kube.CoreV1().Pods("default").Create(ctx, flood, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(control).WithContext(ctx).ShouldNot(BeEmpty())
		Expect(l.Kube.CoreV1().Pods("default").Delete(ctx, "flood", metav1.DeleteOptions{})).To(Succeed())
		goes(ctx, l, "default", "flood")
	}, NodeTimeout(30*time.Minute))
	AfterEach(func(ctx SpecContext) { collectOnFailure(ctx, l) }, NodeTimeout(5*time.Minute))

	reach := func(ctx context.Context, pod, container, address string) error {
		_, err := l.ExecIn(ctx, governed, pod, container, "/probe", "get", address)
		return err
	}

	It("I1, N8, N13: run locked from their first packet; the sidecar alone gets out", Label(smoke), func(ctx SpecContext) {
		startsGoverned(ctx, l, node, "first", sidecar)
		Expect(reach(ctx, "first", "sidecar", served(ctx, l, nodes[0]))).To(Succeed())
		Expect(reach(ctx, "first", "work", served(ctx, l, nodes[0]))).NotTo(Succeed())
		out, err := l.ExecIn(ctx, governed, "first", "sidecar", "/probe", "dns", "kubernetes.default.svc.cluster.local")
		Expect(err).NotTo(HaveOccurred(), out)
		_, err = l.ExecIn(ctx, governed, "first", "work", "/probe", "dns", "kubernetes.default.svc.cluster.local")
		Expect(err).To(HaveOccurred())
		Expect(seen(ctx)).To(BeEmpty(), "a container that floods from its first instruction gets nothing out")

		By("reading the stamp and the rules as a person does")
		lo, err := node.Shell(ctx, `for n in /run/netns/*; do nsenter --net=$n ip link show lo; done`)
		Expect(err).NotTo(HaveOccurred())
		Expect(lo).To(MatchRegexp(`alias holdfast/1 release=\S+ rules=[0-9a-f]{64} beat=\d+`))
		Eventually(annotation).WithContext(ctx).WithArguments(l, governed, "first", "holdfast.dev/proof").Should(MatchRegexp(`chain=runtime rules=[0-9a-f]{64} agent=`))
	}, SpecTimeout(25*time.Minute)) // the cluster is made in it

	It("N8: are refused without the sidecar, with its user, or as static pods, and never hang Terminating", Label(smoke), func(ctx SpecContext) {
		bare := governedPod("bare", node.Name, sidecar)
		bare.Spec.InitContainers = nil
		thief := governedPod("thief", node.Name, sidecar)
		thief.Spec.Containers[0].SecurityContext.RunAsUser = ptr(int64(64128))
		for _, pod := range []*corev1.Pod{bare, thief} {
			_, err := l.Kube.CoreV1().Pods(governed).Create(ctx, pod, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(eventNotes).WithContext(ctx).WithArguments(l, governed).Should(ContainElement(And(ContainSubstring("holdfast-cni: "), ContainSubstring(pod.Name))))
			Consistently(podReady, "3s").WithContext(ctx).WithArguments(l, governed, pod.Name).Should(BeFalse())
			Expect(l.Kube.CoreV1().Pods(governed).Delete(ctx, pod.Name, metav1.DeleteOptions{})).To(Succeed())
			goes(ctx, l, governed, pod.Name)
		}
		static := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"static","namespace":%q},"spec":{"containers":[{"name":"work","image":%q,"args":["flood","10.96.0.1:%d"]}]}}`, governed, probe, floodTo)
		Expect(node.Write(ctx, "/etc/kubernetes/manifests/static.json", []byte(static), 0o644)).To(Succeed())
		Eventually(node.Shell).WithContext(ctx).WithArguments(`journalctl -u kubelet --no-pager | grep -c "static.*holdfast-cni" || true`).ShouldNot(HavePrefix("0"))
		_, err := node.Run(ctx, "rm", "/etc/kubernetes/manifests/static.json")
		Expect(err).NotTo(HaveOccurred())
		Expect(seen(ctx)).To(BeEmpty())
	}, SpecTimeout(5*time.Minute))

	It("N14: are cut off at once on demand, with the reason", Label(smoke), func(ctx SpecContext) {
		startsGoverned(ctx, l, node, "demanded", sidecar)
		Expect(reach(ctx, "demanded", "sidecar", served(ctx, l, nodes[0]))).To(Succeed())
		_, err := l.Kube.CoreV1().Pods(governed).Patch(ctx, "demanded", types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/cut":"a person says so"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(annotation).WithContext(ctx).WithArguments(l, governed, "demanded", "holdfast.dev/cut-off").Should(ContainSubstring("a person says so"))
		Expect(reach(ctx, "demanded", "sidecar", served(ctx, l, nodes[0]))).NotTo(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("N12, N13: outlive an agent that is away for less than 90 s, and are cut off for good after that; others start meanwhile (I2)", Label(ci), func(ctx SpecContext) {
		early, late := nodes[1], nodes[0] // whose agent comes back in time, and too late
		startsGoverned(ctx, l, early, "early", sidecar)
		startsGoverned(ctx, l, late, "late", sidecar)
		release, err := l.HoldPods(ctx, ours, agent)
		Expect(err).NotTo(HaveOccurred())
		Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(BeZero())
		began := time.Now()
		startsPod(ctx, l, early, "ungoverned")
		_, err = l.Kube.CoreV1().Pods(governed).Create(ctx, governedPod("refused", early.Name, sidecar), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		time.Sleep(time.Until(began.Add(60 * time.Second))) // with the time that pods take to come, under 90 s
		Expect(podReady(ctx, l, governed, "refused")).To(BeFalse())
		holdAgain, err := early.Exempt(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(1))
		Eventually(podReady).WithContext(ctx).WithArguments(l, governed, "refused").Should(BeTrue(), "the runtime tries again")
		time.Sleep(time.Until(began.Add(100 * time.Second)))
		Expect(reach(ctx, "early", "sidecar", served(ctx, l, nodes[0]))).To(Succeed())
		Expect(reach(ctx, "late", "sidecar", served(ctx, l, nodes[1]))).NotTo(Succeed(), "the kernel alone cuts it off")
		Expect(release(ctx)).To(Succeed())
		Expect(holdAgain(ctx)).To(Succeed())
		Eventually(annotation).WithContext(ctx).WithArguments(l, governed, "late", "holdfast.dev/cut-off").Should(HavePrefix("Expired"))
		Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(len(nodes)))
		Expect(reach(ctx, "late", "sidecar", served(ctx, l, nodes[1]))).NotTo(Succeed())
		Expect(reach(ctx, "early", "sidecar", served(ctx, l, nodes[0]))).To(Succeed())
		Expect(annotation(ctx, l, governed, "early", "holdfast.dev/cut-off")).To(BeEmpty())
		Expect(seen(ctx)).To(BeEmpty())
	}, SpecTimeout(12*time.Minute))

	It("N18: that got past the chain are cut within seconds", Label(ci), func(ctx SpecContext) {
		release, err := l.HoldPods(ctx, ours, installer)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(release)
		Eventually(installers).WithContext(ctx).WithArguments(l).Should(BeEmpty())
		_, err = node.Shell(ctx, `rm -r /etc/cni/net.d/ptp; touch /etc/cni/net.d/.e2e; rm /etc/cni/net.d/.e2e`)
		Expect(err).NotTo(HaveOccurred())
		Eventually(chained).WithContext(ctx).WithArguments(node).Should(And(HavePrefix("OK"), Not(ContainSubstring("holdfast-cni"))))
		_, err = l.Kube.CoreV1().Pods(governed).Create(ctx, governedPod("past", node.Name, sidecar), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		began := time.Now()
		Eventually(annotation).WithContext(ctx).WithArguments(l, governed, "past", "holdfast.dev/cut-off").Should(HavePrefix("PastChain"))
		report("a governed pod that got past the chain: cut and told %s after it was created", time.Since(began).Round(100*time.Millisecond))
		before, err := seen(ctx)
		Expect(err).NotTo(HaveOccurred())
		Consistently(seen, "3s").WithContext(ctx).Should(Equal(before), "nothing more comes out of it")
		Eventually(annotation).WithContext(ctx).WithArguments(l, governed, "past", "holdfast.dev/evict").ShouldNot(BeEmpty())
		Expect(release(ctx)).To(Succeed())
		// The Node still says that it is open, as nobody was there to say otherwise.
		Eventually(chained).WithContext(ctx).WithArguments(node).Should(And(HavePrefix("OK"), ContainSubstring("holdfast-cni")))
		becomes(ctx, l, opened, nodes...)
		Expect(l.Kube.CoreV1().Pods(governed).Delete(ctx, "past", metav1.DeleteOptions{})).To(Succeed())
		goes(ctx, l, governed, "past")
		_, err = node.Shell(ctx, ": > /run/e2e-count-9999")
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(5*time.Minute))

	It("N19: live through an upgrade of the agent, and a crashing new agent stops the roll-out", Label(ci), func(ctx SpecContext) {
		startsGoverned(ctx, l, node, "upgraded", sidecar)
		patch := func(text string) {
			_, err := l.Kube.AppsV1().DaemonSets(ours).Patch(ctx, agent, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		rolled := func() bool {
			ds, err := l.Kube.AppsV1().DaemonSets(ours).Get(ctx, agent, metav1.GetOptions{})
			return err == nil && ds.Status.ObservedGeneration == ds.Generation && int(ds.Status.UpdatedNumberScheduled) == len(nodes) && int(ds.Status.NumberAvailable) == len(nodes)
		}
		patch(`{"spec":{"template":{"metadata":{"annotations":{"e2e":"upgraded"}}}}}`)
		Eventually(rolled).WithContext(ctx).Should(BeTrue())
		Expect(reach(ctx, "upgraded", "sidecar", served(ctx, l, nodes[0]))).To(Succeed())
		Expect(annotation(ctx, l, governed, "upgraded", "holdfast.dev/cut-off")).To(BeEmpty())

		By("rolling out one that crashes")
		ds, err := l.Kube.AppsV1().DaemonSets(ours).Get(ctx, agent, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		good, err := json.Marshal(ds.Spec.Template.Spec.Containers[0].Args)
		Expect(err).NotTo(HaveOccurred())
		patch(`{"spec":{"template":{"spec":{"containers":[{"name":"agent","args":["--no-such-flag"]}]}}}}`)
		Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(len(nodes) - 1))
		Consistently(agentsReady, "20s").WithContext(ctx).WithArguments(l).Should(Equal(len(nodes) - 1))
		patch(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"agent","args":%s}]}}}}`, good))
		Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(len(nodes)))
	}, SpecTimeout(8*time.Minute))

	DescribeTable("I1, I2: kills of plugin, agent, runtime and kubelet: no packet from a governed pod, no stuck pod", func(ctx SpecContext, kills int) {
		becomes(ctx, l, opened, node)
		_, err := node.Shell(ctx, ": > /run/e2e-count-9999")
		Expect(err).NotTo(HaveOccurred())
		stop := make(chan struct{})
		done := make(chan int)
		go func() {
			defer GinkgoRecover()
			killed := 0
			for killed < kills {
				select {
				case <-stop:
					done <- killed
					return
				case <-time.After(time.Duration(200+rand.IntN(1800)) * time.Millisecond):
				}
				victim := []string{"holdfast-cni", "holdfast-cni", "agent", "containerd", "kubelet"}[rand.IntN(5)]
				script := "pkill -KILL -x " + victim
				switch victim {
				case "agent":
					script = `pkill -KILL -f "^/holdfast agent"`
				case "holdfast-cni": // lives for milliseconds
					script = `for i in $(seq 1500); do pkill -KILL -x holdfast-cni && exit; done; exit 1`
				}
				if _, err := node.Shell(ctx, script); err == nil { // else there was none of it just then
					killed++
				}
			}
			done <- killed
		}()
		total, pods, locked := 0, 0, 0
		for finished := false; !finished; pods++ {
			for name, pod := range map[string]*corev1.Pod{"kill-g-": governedPod("", node.Name, sidecar), "kill-u-": servePod("", node.Name, nil)} {
				pod.Name = fmt.Sprint(name, pods)
				_, err := l.Kube.CoreV1().Pods(namespaceOf(name)).Create(ctx, pod, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
			select {
			case total = <-done:
				finished = true
			case <-time.After(4 * time.Second):
			}
			if pods >= 3 {
				if podReady(ctx, l, governed, fmt.Sprint("kill-g-", pods-3)) {
					locked++
				}
				for _, name := range []string{"kill-g-", "kill-u-"} {
					_ = l.Kube.CoreV1().Pods(namespaceOf(name)).Delete(ctx, fmt.Sprint(name, pods-3), metav1.DeleteOptions{})
				}
			}
		}
		close(stop)
		Expect(total).To(Equal(kills))
		Expect(locked).To(BeNumerically(">", 0), "governed pods that got their lease meanwhile")
		for i := max(0, pods-3); i < pods; i++ { // those before were deleted
			Eventually(podReady).WithContext(ctx).WithArguments(l, "default", fmt.Sprint("kill-u-", i)).Should(BeTrue(), "an ungoverned pod is never stuck")
		}
		for i := range pods {
			for _, name := range []string{"kill-g-", "kill-u-"} {
				_ = l.Kube.CoreV1().Pods(namespaceOf(name)).Delete(ctx, fmt.Sprint(name, i), metav1.DeleteOptions{})
				goes(ctx, l, namespaceOf(name), fmt.Sprint(name, i))
			}
		}
		out, err := seen(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(BeEmpty(), "packets of governed pods seen on the node's side of their links")
		report("%d kills at random instants, %d governed pods, of which %d Ready within 12 s, and as many others started meanwhile: no packet of a governed pod's flood, no stuck pod", kills, pods, locked)
	},
		Entry("40", Label(ci), SpecTimeout(12*time.Minute), 40),
		Entry("500", Label(full), SpecTimeout(60*time.Minute), 500),
	)
})

func namespaceOf(name string) string {
	if strings.HasPrefix(name, "kill-g") {
		return governed
	}
	return "default"
}

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

func startsGoverned(ctx context.Context, l *lab.Lab, node *lab.Node, name, sidecar string) {
	GinkgoHelper()
	_, err := l.Kube.CoreV1().Pods(governed).Create(ctx, governedPod(name, node.Name, sidecar), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(podReady).WithContext(ctx).WithArguments(l, governed, name).Should(BeTrue())
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
