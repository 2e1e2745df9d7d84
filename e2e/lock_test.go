//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/e2e/lab"
)

const (
	governed = "governed"
	agent    = "holdfast-agent"
	floodTo  = 9999        // the port that governed workloads flood, and nothing else sends to
	control  = floodTo - 1 // the port that the counters have to see packets to
)

// governedPods are the specs of the lock, on a cluster.
type governedPods struct {
	on                    lockedOn
	l                     *lab.Lab
	nodes                 []*lab.Node
	node                  *lab.Node // the one that most specs are about
	digest, sidecar, peer string    // peer is what the other node serves
	counters              []lab.Counter
}

var _ = describe("governed pods", func() {
	for _, on := range lockedNetworks {
		Context("on "+on.text, Ordered, ContinueOnFailure, func() {
			g := &governedPods{on: on}
			BeforeAll(g.begin, NodeTimeout(30*time.Minute))
			AfterEach(func(ctx SpecContext) { collectOnFailure(ctx, g.l) }, NodeTimeout(5*time.Minute))

			It("I1, N8, N13: run locked from their first packet; the sidecar alone gets out", on.when(smoke), g.first, SpecTimeout(25*time.Minute)) // the cluster is made in it
			It("N8: are refused without the sidecar, with its user, or as static pods, and never hang Terminating", on.when(smoke), g.refused, SpecTimeout(5*time.Minute))
			It("N14: are cut off at once on demand, with the reason", on.when(smoke), g.demanded, SpecTimeout(3*time.Minute))
			if on.socketLB == "Hostns-only" {
				It("I1, C4: stay locked whether socket LB rewrites in pods or not, which costs a sidecar its DNS", Label(full), g.rewritten, SpecTimeout(10*time.Minute))
			}
			It("N12, N13: outlive an agent that is away for less than 90 s, and are cut off for good after that; others start meanwhile (I2)", on.when(ci), g.without, SpecTimeout(12*time.Minute))
			It("N18: that got past the chain are cut within seconds", on.when(ci), g.past, SpecTimeout(6*time.Minute))
			It("N19: live through an upgrade of agent, plugin and rules without a gap, and a crashing new agent stops the roll-out", on.when(ci), g.upgraded, SpecTimeout(15*time.Minute))
			const killed = "I1, I2: %d kills of plugin, agent, runtime and kubelet: no packet from a governed pod, no stuck pod"
			It(fmt.Sprintf(killed, 40), on.when(ci), func(ctx SpecContext) { g.kills(ctx, 40) }, SpecTimeout(12*time.Minute))
			if on.often {
				It(fmt.Sprintf(killed, 500), Label(full), func(ctx SpecContext) { g.kills(ctx, 500) }, SpecTimeout(90*time.Minute))
			}
		})
	}
})

func (g *governedPods) begin(ctx SpecContext) {
	g.l = g.on.make(ctx)
	var err error
	g.nodes, err = g.l.Nodes(ctx)
	Expect(err).NotTo(HaveOccurred())
	g.digest, err = g.l.LoadProduct(ctx)
	Expect(err).NotTo(HaveOccurred())
	g.count(ctx)
	install(ctx, g.l, g.nodes[0].Name, g.digest, g.on.chart(governedPlugin(g.sidecar)))
	g.on.opens(ctx, g.l, g.nodes)
	g.talk(ctx)
}

// count brings what governed pods are made of, and counts what leaves them.
func (g *governedPods) count(ctx context.Context) {
	GinkgoHelper()
	g.node = g.nodes[1]
	var err error
	g.sidecar, err = g.l.LoadSidecar(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, node := range g.nodes {
		counter, err := node.CountPackets(ctx, floodTo, control)
		Expect(err).NotTo(HaveOccurred())
		g.counters = append(g.counters, counter)
	}
}

// talk makes what governed pods may, or may not, talk to.
func (g *governedPods) talk(ctx context.Context) {
	GinkgoHelper()
	servePods(ctx, g.l, g.nodes, "talk")
	g.peer = served(ctx, g.l, g.nodes[0])
	governedNamespace(ctx, g.l)
}

// nothingOut checks that no packet of a governed pod's flood was counted, by counters that see those of a pod that is not governed.
func (g *governedPods) nothingOut(ctx context.Context) {
	GinkgoHelper()
	for i, node := range g.nodes {
		flood := servePod(fmt.Sprint("flood-", i), node.Name, nil)
		flood.Spec.Containers[0].Args, flood.Spec.Containers[0].ReadinessProbe = []string{"flood", fmt.Sprintf("10.244.0.1:%d", control)}, nil
		_, err := g.l.Kube.CoreV1().Pods("default").Create(ctx, flood, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(g.counters[i].Seen).WithContext(ctx).WithArguments(control).ShouldNot(BeEmpty())
		Expect(g.l.Kube.CoreV1().Pods("default").Delete(ctx, flood.Name, metav1.DeleteOptions{})).To(Succeed())
		goes(ctx, g.l, "default", flood.Name)
		Expect(g.counters[i].Seen(ctx, floodTo)).To(BeEmpty(), "packets of governed pods on the node's side of their links")
		Expect(g.counters[i].Forget(ctx)).To(Succeed())
	}
}

// reach asks for a URL from a container of a governed pod.
func (g *governedPods) reach(ctx context.Context, pod, container, url string) error {
	_, err := g.l.ExecIn(ctx, governed, pod, container, "/probe", "get", url)
	return err
}

func (g *governedPods) resolve(ctx context.Context, pod, container string) error {
	_, err := g.l.ExecIn(ctx, governed, pod, container, "/probe", "dns", "kubernetes.default.svc.cluster.local")
	return err
}

func (g *governedPods) first(ctx SpecContext) {
	startsGoverned(ctx, g.l, governedPod("first", g.node.Name, g.sidecar))
	Expect(g.reach(ctx, "first", "sidecar", g.peer)).To(Succeed())
	Expect(g.reach(ctx, "first", "work", g.peer)).NotTo(Succeed())
	if g.on.socketLB == "Full" { // it rewrites the resolver's address before the rules see it (C4)
		Expect(g.resolve(ctx, "first", "sidecar")).NotTo(Succeed())
	} else {
		Expect(g.resolve(ctx, "first", "sidecar")).To(Succeed())
	}
	Expect(g.resolve(ctx, "first", "work")).NotTo(Succeed())
	g.nothingOut(ctx)

	By("reading the stamp and the rules as a person does")
	lo, err := g.node.Shell(ctx, `for n in /run/netns/*; do nsenter --net=$n ip link show lo || true; done`) // one may end just now
	Expect(err).NotTo(HaveOccurred())
	Expect(lo).To(MatchRegexp(`alias holdfast/1 release=\S+ rules=[0-9a-f]{64} beat=\d+`))
	Eventually(annotation).WithContext(ctx).WithArguments(g.l, governed, "first", "holdfast.dev/proof").Should(MatchRegexp(`chain=runtime rules=[0-9a-f]{64} agent=`))
}

func (g *governedPods) refused(ctx SpecContext) {
	bare := governedPod("bare", g.node.Name, g.sidecar)
	bare.Spec.InitContainers = nil
	thief := governedPod("thief", g.node.Name, g.sidecar)
	thief.Spec.Containers[0].SecurityContext.RunAsUser = ptr(int64(64128))
	for _, pod := range []*corev1.Pod{bare, thief} {
		_, err := g.l.Kube.CoreV1().Pods(governed).Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(eventNotes).WithContext(ctx).WithArguments(g.l, governed).Should(ContainElement(And(ContainSubstring("holdfast-cni: "), ContainSubstring(pod.Name))))
		Consistently(podReady, "3s").WithContext(ctx).WithArguments(g.l, governed, pod.Name).Should(BeFalse())
		Expect(g.l.Kube.CoreV1().Pods(governed).Delete(ctx, pod.Name, metav1.DeleteOptions{})).To(Succeed())
		goes(ctx, g.l, governed, pod.Name)
	}

	By("writing one that keeps the contract as a file of the kubelet's")
	static := governedPod("static", "", g.sidecar)
	static.Namespace, static.APIVersion, static.Kind = governed, "v1", "Pod"
	content, err := json.Marshal(static)
	Expect(err).NotTo(HaveOccurred())
	Expect(g.node.Write(ctx, "/etc/kubernetes/manifests/static.json", content, 0o644)).To(Succeed())
	mirror := "static-" + g.node.Name
	Eventually(annotation).WithContext(ctx).WithArguments(g.l, governed, mirror, corev1.MirrorPodAnnotationKey).ShouldNot(BeEmpty())
	Eventually(eventNotes).WithContext(ctx).WithArguments(g.l, governed).Should(ContainElement(ContainSubstring("StaticPod")))
	Consistently(podReady, "10s").WithContext(ctx).WithArguments(g.l, governed, mirror).Should(BeFalse())
	_, err = g.node.Run(ctx, "rm", "/etc/kubernetes/manifests/static.json")
	Expect(err).NotTo(HaveOccurred())
	goes(ctx, g.l, governed, mirror)
	g.nothingOut(ctx)
}

func (g *governedPods) demanded(ctx SpecContext) {
	startsGoverned(ctx, g.l, governedPod("demanded", g.node.Name, g.sidecar))
	Expect(g.reach(ctx, "demanded", "sidecar", g.peer)).To(Succeed())
	_, err := g.l.Kube.CoreV1().Pods(governed).Patch(ctx, "demanded", apitypes.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/cut":"a person says so"}}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(annotation).WithContext(ctx).WithArguments(g.l, governed, "demanded", "holdfast.dev/cut-off").Should(ContainSubstring("a person says so"))
	Expect(g.reach(ctx, "demanded", "sidecar", g.peer)).NotTo(Succeed())
}

func (g *governedPods) rewritten(ctx SpecContext) {
	service, err := g.l.Kube.CoreV1().Services("talk").Get(ctx, "talk", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	locked := func(pod string, resolves types.GomegaMatcher) {
		GinkgoHelper()
		Expect(g.reach(ctx, pod, "sidecar", g.peer)).To(Succeed())
		Expect(g.resolve(ctx, pod, "sidecar")).To(resolves)
		Expect(g.reach(ctx, pod, "work", g.peer)).NotTo(Succeed())
		Expect(g.reach(ctx, pod, "work", fmt.Sprintf("http://%s:8080/", service.Spec.ClusterIP))).NotTo(Succeed())
		Expect(g.resolve(ctx, pod, "work")).NotTo(Succeed())
		g.nothingOut(ctx)
	}
	rewrites := func(hostOnly, coverage string) {
		GinkgoHelper()
		setHostOnly(ctx, g.l, hostOnly)
		restartAgents(ctx, g.l, len(g.nodes))
		Eventually(socketLB).WithContext(ctx).WithArguments(g.l).Should(Equal(coverage))
		becomes(ctx, g.l, opened, g.nodes...)
	}
	startsGoverned(ctx, g.l, governedPod("hosts-only", g.node.Name, g.sidecar))
	locked("hosts-only", Succeed())

	By("letting Cilium rewrite in pods too")
	rewrites("false", "Full")
	startsGoverned(ctx, g.l, governedPod("in-pods", g.node.Name, g.sidecar))
	locked("in-pods", Not(Succeed()))
	locked("hosts-only", Not(Succeed()))

	By("and no more")
	rewrites("true", "Hostns-only")
	// An agent is Ready before it has given each pod's link its program again.
	Eventually(g.resolve).WithArguments("in-pods", "sidecar").WithContext(ctx).Should(Succeed())
	locked("in-pods", Succeed())
}

func (g *governedPods) without(ctx SpecContext) {
	l, early, late := g.l, g.nodes[1], g.nodes[0] // whose agent comes back in time, and too late
	url := map[*lab.Node]string{early: served(ctx, l, late), late: served(ctx, l, early)}
	startsGoverned(ctx, l, pulsing("early", early.Name, g.sidecar, url[early]))
	startsGoverned(ctx, l, pulsing("late", late.Name, g.sidecar, url[late]))
	release, err := l.HoldPods(ctx, ours, agent)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(release)
	Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(BeZero())
	began := time.Now()
	startsPod(ctx, l, early, "ungoverned")
	_, err = l.Kube.CoreV1().Pods(governed).Create(ctx, governedPod("refused", early.Name, g.sidecar), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	time.Sleep(time.Until(began.Add(60 * time.Second))) // with the time that pods take to come, under 90 s
	Expect(podReady(ctx, l, governed, "refused")).To(BeFalse())
	holdAgain, err := early.Exempt(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(holdAgain)
	Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(1))
	Eventually(podReady).WithContext(ctx).WithArguments(l, governed, "refused").Should(BeTrue(), "the runtime tries again")
	time.Sleep(time.Until(began.Add(100 * time.Second)))
	Expect(g.reach(ctx, "late", "sidecar", url[late])).NotTo(Succeed(), "the kernel alone cuts it off")
	Eventually(func() error { _, err := pulse(ctx, l, "late"); return err }).WithContext(ctx).Should(MatchError(ContainSubstring("503")), "a live flow too")
	Expect(release(ctx)).To(Succeed())
	Expect(holdAgain(ctx)).To(Succeed())
	Eventually(annotation).WithContext(ctx).WithArguments(l, governed, "late", "holdfast.dev/cut-off").Should(HavePrefix("Expired"))
	Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(len(g.nodes)))
	Expect(g.reach(ctx, "late", "sidecar", url[late])).NotTo(Succeed())
	Expect(g.reach(ctx, "early", "sidecar", url[early])).To(Succeed())
	said, err := pulse(ctx, l, "early")
	Expect(err).NotTo(HaveOccurred(), "the flow that it had all the time")
	report("on %s: a flow of a sidecar whose agent was away for more than a minute: %s", g.on.text, said)
	Expect(annotation(ctx, l, governed, "early", "holdfast.dev/cut-off")).To(BeEmpty())
	g.nothingOut(ctx)
}

func (g *governedPods) past(ctx SpecContext) {
	l, node := g.l, g.node
	undo := g.on.unchain(ctx, l, node)
	DeferCleanup(undo)
	_, err := l.Kube.CoreV1().Pods(governed).Create(ctx, governedPod("past", node.Name, g.sidecar), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	began := time.Now()
	Eventually(annotation).WithContext(ctx).WithArguments(l, governed, "past", "holdfast.dev/cut-off").Should(HavePrefix("PastChain"))
	report("on %s: a governed pod that got past the chain: cut and told %s after it was created", g.on.text, time.Since(began).Round(100*time.Millisecond))
	counter := g.counters[1]
	before, err := counter.Seen(ctx, floodTo)
	Expect(err).NotTo(HaveOccurred())
	Consistently(counter.Seen, "3s").WithContext(ctx).WithArguments(floodTo).Should(Equal(before), "nothing more comes out of it")
	Eventually(annotation).WithContext(ctx).WithArguments(l, governed, "past", "holdfast.dev/evict").ShouldNot(BeEmpty())
	Expect(undo(ctx)).To(Succeed())
	// The Node still says that it is open, as nobody was there to say otherwise.
	Eventually(chained).WithContext(ctx).WithArguments(node).Should(And(HavePrefix("OK"), ContainSubstring("holdfast-cni")))
	becomes(ctx, l, opened, g.nodes...)
	Expect(l.Kube.CoreV1().Pods(governed).Delete(ctx, "past", metav1.DeleteOptions{})).To(Succeed())
	goes(ctx, l, governed, "past")
	for _, counter := range g.counters { // its flood went to another node
		Expect(counter.Forget(ctx)).To(Succeed())
	}
}

func (g *governedPods) upgraded(ctx SpecContext) {
	l := g.l
	startsGoverned(ctx, l, pulsing("upgraded", g.node.Name, g.sidecar, g.peer))
	Eventually(proof).WithContext(ctx).WithArguments(l, "upgraded", "rules").ShouldNot(BeEmpty())
	rules, lost := proof(ctx, l, "upgraded", "rules"), leaseless(ctx, l, g.node, "upgraded")
	unbroken := func() string {
		GinkgoHelper()
		said, err := pulse(ctx, l, "upgraded")
		Expect(err).NotTo(HaveOccurred())
		Expect(leaseless(ctx, l, g.node, "upgraded")).To(Equal(lost), "a packet was dropped for want of a lease")
		Expect(annotation(ctx, l, governed, "upgraded", "holdfast.dev/cut-off")).To(BeEmpty())
		return said
	}

	By("upgrading to another release")
	closed := everNot(ctx, l, opened)
	next, err := l.LoadProduct(ctx, "-buildvcs=false", "-tags", "next")
	Expect(err).NotTo(HaveOccurred())
	Expect(next).NotTo(Equal(g.digest))
	began := time.Now()
	upgrade(ctx, l, g.nodes[0].Name, next, g.on.chart(governedPlugin(g.sidecar)))
	for _, daemonSet := range []string{agent, installer} {
		Eventually(rolled).WithContext(ctx).WithArguments(l, daemonSet).Should(BeTrue())
	}
	report("on %s: agent and plugin of both nodes upgraded in %s; a flow of a sidecar meanwhile: %s", g.on.text, time.Since(began).Round(time.Second), unbroken())
	Expect(closed()).To(BeEmpty(), "an upgrade closes no node")

	By("upgrading to other rules, which a pod has that starts from now on")
	values := governedPlugin(g.sidecar)
	values["plugin"].(map[string]any)["refuse"] = []any{"9.9.9.0/24"}
	upgrade(ctx, l, g.nodes[0].Name, next, g.on.chart(values))
	for _, node := range g.nodes {
		Eventually(chained).WithContext(ctx).WithArguments(node).Should(ContainSubstring("9.9.9.0/24"))
	}
	becomes(ctx, l, opened, g.nodes...)
	startsGoverned(ctx, l, governedPod("newer", g.node.Name, g.sidecar))
	Eventually(proof).WithContext(ctx).WithArguments(l, "newer", "rules").ShouldNot(Or(BeEmpty(), Equal(rules)))
	Expect(proof(ctx, l, "upgraded", "rules")).To(Equal(rules))
	unbroken()

	By("rolling out an agent that crashes")
	args := func(text string) {
		GinkgoHelper()
		patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"agent","args":%s}]}}}}`, text)
		_, err := l.Kube.AppsV1().DaemonSets(ours).Patch(ctx, agent, apitypes.StrategicMergePatchType, patch, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	ds, err := l.Kube.AppsV1().DaemonSets(ours).Get(ctx, agent, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	good, err := json.Marshal(ds.Spec.Template.Spec.Containers[0].Args)
	Expect(err).NotTo(HaveOccurred())
	args(`["--no-such-flag"]`)
	Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(len(g.nodes) - 1))
	Consistently(agentsReady, "20s").WithContext(ctx).WithArguments(l).Should(Equal(len(g.nodes) - 1))
	args(string(good))
	Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(len(g.nodes)))
	unbroken()
	g.nothingOut(ctx)
}
