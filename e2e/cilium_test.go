//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/e2e/lab"
	"github.com/holdfast-cni/holdfast/helm"
	"github.com/holdfast-cni/holdfast/watcher"
)

const (
	ours    = "holdfast"
	ciliums = "kube-system"
)

var _ = describe("Cilium that reads our ConfigMap", Ordered, ContinueOnFailure, func() {
	var l *lab.Lab
	var nodes []*lab.Node
	var digest string

	BeforeAll(func(ctx SpecContext) {
		l = makeLab(ctx, lab.Options{Name: "e2e-cilium", Net: "cilium", Flags: []string{"-configmap", "none", "-registered"}})
		var err error
		nodes, err = l.Nodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		digest, err = l.LoadProduct(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(20*time.Minute))
	AfterEach(func(ctx SpecContext) { collectOnFailure(ctx, l) }, NodeTimeout(5*time.Minute))

	// installed installs the chart, if no earlier spec did, and waits for Cilium: so each spec can run alone.
	installed := func(ctx context.Context) {
		GinkgoHelper()
		if _, err := list(ctx, l); err == nil {
			return
		}
		install(ctx, l, nodes[0].Name, digest, nil)
		Eventually(agents).WithContext(ctx).WithArguments(l).Should(And(HaveLen(len(nodes)), HaveEach(Satisfy(ready))))
		becomes(ctx, l, opened, nodes...)
	}

	It("C1: hangs while the ConfigMap does not exist", Label(smoke), func(ctx SpecContext) {
		Eventually(agents).WithContext(ctx).WithArguments(l).Should(And(HaveLen(len(nodes)), HaveEach(HaveField("Status.Phase", corev1.PodPending))))
		Eventually(eventNotes).WithContext(ctx).WithArguments(l, ciliums).Should(ContainElement(ContainSubstring(
			`configmap "holdfast-cni-config" not found`)))
		Consistently(agents, "5s").WithContext(ctx).WithArguments(l).Should(HaveEach(HaveField("Status.Phase", corev1.PodPending)))
	}, SpecTimeout(25*time.Minute)) // the cluster is made in it

	It("C1, N2, N3: starts once the watcher, a pod of the chart, has made it, and each node opens", Label(smoke), func(ctx SpecContext) {
		began := time.Now()
		installed(ctx)
		report("from the chart's installation to every agent Ready and every node open: %s", time.Since(began).Round(time.Second))
		Expect(message(ctx, l, nodes[1])).To(ContainSubstring("strategy cilium, proof runtime"))
		Eventually(notReady).WithContext(ctx).WithArguments(l).Should(BeEmpty())
	}, SpecTimeout(5*time.Minute))

	It("C1: writes exactly the list that the watcher made, on every node, and the runtime has loaded it", Label(smoke), func(ctx SpecContext) {
		installed(ctx)
		want, err := list(ctx, l)
		Expect(err).NotTo(HaveOccurred())
		for _, node := range nodes {
			Eventually(node.Read).WithContext(ctx).WithArguments(lab.ConfDir + "/05-cilium.conflist").Should(Equal(want))
			plugins, status, err := node.Loaded(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(status).To(Equal("OK"))
			Expect(plugins).To(HaveLen(2))
			Expect(plugins[0]).To(ContainSubstring(`"type":"cilium-cni"`))
			Expect(plugins[1]).To(MatchJSON(pluginJSON(ctx, l)))
		}
	}, SpecTimeout(2*time.Minute))

	It("N2: pods on two nodes talk by Service name through the chain", Label(smoke), func(ctx SpecContext) {
		installed(ctx)
		servePods(ctx, l, nodes, "talk")
		for _, node := range nodes {
			Eventually(l.Exec).WithContext(ctx).WithArguments("talk", "pod-"+node.Name, "/probe", "get", "http://talk.talk.svc.cluster.local:8080/").
				Should(ContainSubstring("pod-"))
		}

		By("being refused by the plugin where they are governed, and nowhere else")
		_, err := l.Kube.CoreV1().Pods("talk").Create(ctx, servePod("governed", nodes[1].Name, map[string]string{"holdfast.dev/governed": "true"}), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(eventNotes).WithContext(ctx).WithArguments(l, "talk").Should(ContainElement(ContainSubstring("holdfast-cni: ")))
		Expect(l.Kube.CoreV1().Pods("talk").Delete(ctx, "governed", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := l.Kube.CoreV1().Pods("talk").Get(ctx, "governed", metav1.GetOptions{})
			return err
		}).WithContext(ctx).Should(MatchError(ContainSubstring("not found")), "a refused pod must not hang Terminating")
	}, SpecTimeout(4*time.Minute))

	It("C4: the socket LB finding says what the agent says", Label(smoke), func(ctx SpecContext) {
		installed(ctx)
		Eventually(socketLB).WithContext(ctx).WithArguments(l).Should(Equal("Hostns-only"))
		Expect(findings(ctx, l)).NotTo(ContainElement(HaveField("ID", configmap.SocketLBInPods)))

		By("turning it on in pods, the way a person would: the setting, then the agents")
		setHostOnly(ctx, l, "false")
		Eventually(findings).WithContext(ctx).WithArguments(l).Should(ContainElement(HaveField("ID", configmap.SocketLBInPods)))
		Eventually(findings).WithContext(ctx).WithArguments(l).Should(ContainElement(HaveField("ID", configmap.AgentOutdated)))
		restartAgents(ctx, l, len(nodes))
		Eventually(socketLB).WithContext(ctx).WithArguments(l).Should(Equal("Full"))
		Eventually(findings).WithContext(ctx).WithArguments(l).ShouldNot(ContainElement(HaveField("ID", configmap.AgentOutdated)))

		setHostOnly(ctx, l, "true")
		restartAgents(ctx, l, len(nodes))
		Eventually(findings).WithContext(ctx).WithArguments(l).Should(BeEmpty())
	}, SpecTimeout(5*time.Minute))

	It("I1, N8, N13: locks governed pods from their first packet; the sidecar alone gets out", Label(ci), func(ctx SpecContext) {
		installed(ctx)
		g := &governedPods{on: lockedOn{socketLB: "Hostns-only"}, l: l, nodes: nodes, digest: digest}
		g.count(ctx)
		upgrade(ctx, l, nodes[0].Name, digest, governedPlugin(g.sidecar))
		for _, n := range nodes {
			Eventually(chained).WithContext(ctx).WithArguments(n).Should(ContainSubstring(g.sidecar[strings.Index(g.sidecar, "@")+1:]))
		}
		becomes(ctx, l, opened, nodes...)
		Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(len(nodes)))
		g.talk(ctx)
		g.first(ctx)
		Expect(l.Kube.CoreV1().Namespaces().Delete(ctx, governed, metav1.DeleteOptions{})).To(Succeed())
		goes(ctx, l, governed, "first")
		upgrade(ctx, l, nodes[0].Name, digest, nil)
		becomes(ctx, l, opened, nodes...)
	}, SpecTimeout(6*time.Minute))

	It("C6: a changed plugin.json reaches the chain that the runtime has loaded at once with fast sync", Label(smoke), func(ctx SpecContext) {
		installed(ctx)
		before := restarts(ctx, l, ciliums, "k8s-app=cilium")
		report("changed plugin.json to the loaded chain of every node, with fast sync: %s", changeReaches(ctx, l, nodes, "10.96.0.11"))
		becomes(ctx, l, opened, nodes...)
		Expect(restarts(ctx, l, ciliums, "k8s-app=cilium")).To(Equal(before), "no agent was restarted")
		Eventually(asked).WithContext(ctx).WithArguments(l).Should(HaveEach(Equal(listDigest(ctx, l))))
	}, SpecTimeout(4*time.Minute))

	It("C6: and within the kubelet's sync period without", Label(full), func(ctx SpecContext) {
		installed(ctx)
		upgrade(ctx, l, nodes[0].Name, digest, map[string]any{
			"plugin":   map[string]any{"resolvers": []any{"10.96.0.11"}},
			"fastSync": map[string]any{"enabled": false, "policy": false},
		})
		Eventually(watchersOf).WithContext(ctx).WithArguments(l).Should(And(HaveLen(1), HaveEach(And(
			HaveField("Spec.Containers", HaveEach(HaveField("Args", ContainElement("--fast-sync=false")))), Satisfy(ready)))))
		before, err := asked(ctx, l)
		Expect(err).NotTo(HaveOccurred())
		report("the same without fast sync: %s", changeReaches(ctx, l, nodes, "10.96.0.10"))
		Expect(asked(ctx, l)).To(Equal(before), "the pods are left alone")
	}, SpecTimeout(6*time.Minute))

	It("C5: keeps the node closed while Cilium's list differs, writes no list itself, and opens when Cilium's agent goes on", Label(ci), func(ctx SpecContext) {
		installed(ctx)
		node, file := nodes[1], lab.ConfDir+"/05-cilium.conflist"
		want, err := list(ctx, l)
		Expect(err).NotTo(HaveOccurred())
		for reason, edited := range map[chaining.Reason]string{
			chaining.EntryDiffers: strings.Replace(want, "10.96.0.1", "10.97.0.1", 1),
			chaining.EntryMissing: strings.Replace(want, "holdfast-cni", "bandwidth", 1),
			chaining.ListInvalid:  want[:len(want)/2],
		} {
			resume := pauseAgent(ctx, node)
			Expect(node.Write(ctx, file, []byte(edited), 0o600)).To(Succeed())
			becomes(ctx, l, closed(reason), node)
			Expect(node.Shell(ctx, "find /etc/cni/net.d -name '*holdfast*'")).To(BeEmpty())
			Expect(resume(ctx)).To(Succeed())
			becomes(ctx, l, opened, node)
		}
	}, SpecTimeout(6*time.Minute))

	It("N3: heals a runtime that missed Cilium's list (containerd#11715)", Label(ci), func(ctx SpecContext) {
		installed(ctx)
		node := nodes[1]
		resume := pauseAgent(ctx, node)
		_, err := node.Shell(ctx, `mkdir -p /etc/cni/elsewhere && mv /etc/cni/net.d/05-cilium.conflist /etc/cni/elsewhere/`)
		Expect(err).NotTo(HaveOccurred())
		Eventually(chained).WithContext(ctx).WithArguments(node).Should(ContainSubstring("no network config found"))
		becomes(ctx, l, closed(chaining.NoNetworkList), node)
		_, err = node.Shell(ctx, `mv /etc/cni/elsewhere/05-cilium.conflist /etc/cni/net.d/`)
		Expect(err).NotTo(HaveOccurred())
		becomes(ctx, l, opened, node)
		Expect(resume(ctx)).To(Succeed())
		becomes(ctx, l, opened, node)
	}, SpecTimeout(5*time.Minute))

	It("N4: takes a node out when its label is removed, though Cilium's list names the plugin still, and back in", Label(ci), func(ctx SpecContext) {
		installed(ctx)
		label(ctx, l, "null", nodes[1])
		becomes(ctx, l, "-", nodes[1])
		Eventually(installers).WithContext(ctx).WithArguments(l).Should(HaveLen(len(nodes) - 1))
		startsPod(ctx, l, nodes[1], "stubbed")
		register(ctx, l, nodes[1])
		becomes(ctx, l, opened, nodes[1])
	}, SpecTimeout(4*time.Minute))

	DescribeTable("I2: pods live on when a process of the node is killed", Label(ci), func(ctx SpecContext, process string) {
		installed(ctx)
		servePods(ctx, l, nodes, "talk")
		node := nodes[1]
		before := restarts(ctx, l, "talk", "app=talk")
		process15 := process[:min(15, len(process))]
		pid, err := node.Run(ctx, "pgrep", "-o", "-x", process15)
		Expect(err).NotTo(HaveOccurred())
		Expect(node.Kill(ctx, process)).To(Succeed())
		Eventually(node.Run).WithContext(ctx).WithArguments("pgrep", "-o", "-x", process15).ShouldNot(Equal(pid), "another one comes")
		Eventually(notReady).WithContext(ctx).WithArguments(l).Should(BeEmpty())
		Eventually(agents).WithContext(ctx).WithArguments(l).Should(HaveEach(Satisfy(ready)))
		Expect(restarts(ctx, l, "talk", "app=talk")).To(Equal(before), "running pods are left alone")
		Eventually(l.Exec).WithContext(ctx).WithArguments("talk", "pod-"+node.Name, "/probe", "get", "http://talk.talk.svc.cluster.local:8080/").Should(ContainSubstring("pod-"))

		By("starting a new pod on it")
		name := fmt.Sprintf("after-%s", process)
		_, err = l.Kube.CoreV1().Pods("talk").Create(ctx, servePod(name, node.Name, nil), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(podReady).WithContext(ctx).WithArguments(l, "talk", name).Should(BeTrue())
	},
		Entry("containerd", SpecTimeout(4*time.Minute), "containerd"),
		Entry("kubelet", SpecTimeout(4*time.Minute), "kubelet"),
		Entry("the Cilium agent", SpecTimeout(4*time.Minute), "cilium-agent"),
	)

	It("C9: helm uninstall leaves Cilium its own entry, and Cilium able to start", Label(ci), func(ctx SpecContext) {
		installed(ctx)
		servePods(ctx, l, nodes, "talk")
		Expect(helm.Uninstall(ctx, l.Config, helm.ReleaseOptions{Release: "holdfast", Namespace: ours})).To(Succeed())
		for _, node := range nodes {
			Expect(state(ctx, l, node)).To(Equal("false"))
			Expect(chained(ctx, node)).To(And(HavePrefix("OK"), Not(ContainSubstring("holdfast-cni"))))
		}
		Expect(l.Kube.CoreV1().Namespaces().Delete(ctx, "talk", metav1.DeleteOptions{})).To(Succeed())
		for _, node := range nodes {
			goes(ctx, l, "talk", "pod-"+node.Name)
		}
		Expect(list(ctx, l)).To(And(ContainSubstring("cilium-cni"), Not(ContainSubstring("holdfast-cni"))))
		restartAgents(ctx, l, len(nodes))
		for _, node := range nodes {
			Eventually(node.Read).WithContext(ctx).WithArguments(lab.ConfDir + "/05-cilium.conflist").ShouldNot(ContainSubstring("holdfast-cni"))
		}
		Eventually(notReady).WithContext(ctx).WithArguments(l).Should(BeEmpty())
	}, SpecTimeout(6*time.Minute))
})

// socketLB is where every agent says that it rewrites service addresses, or Disabled: a coverage is told of what is disabled, too.
func socketLB(ctx context.Context, l *lab.Lab) (string, error) {
	pods, err := agents(ctx, l)
	if err != nil {
		return "", err
	}
	said := ""
	for i, pod := range pods {
		out, err := l.Exec(ctx, ciliums, pod.Name, "cilium-dbg", "status", "--verbose")
		if err != nil {
			return "", err
		}
		field := func(name string) string {
			_, value, _ := strings.Cut(out, name+":")
			value, _, _ = strings.Cut(value, "\n")
			return strings.TrimSpace(value)
		}
		value := field("Socket LB")
		if value == "Enabled" {
			value = field("Socket LB Coverage")
		}
		if i > 0 && value != said {
			return "", fmt.Errorf("agents differ: %q and %q", said, value)
		}
		said = value
	}
	return said, nil
}

// changeReaches sets another resolver and returns how long the chain that the runtime has loaded takes to follow on every node.
func changeReaches(ctx context.Context, l *lab.Lab, nodes []*lab.Node, resolver string) time.Duration {
	GinkgoHelper()
	plugin := strings.NewReplacer("10.96.0.10", resolver, "10.96.0.11", resolver).Replace(pluginJSON(ctx, l))
	patch, err := json.Marshal(map[string]any{"data": map[string]string{watcher.PluginKey: plugin}})
	Expect(err).NotTo(HaveOccurred())
	began := time.Now()
	_, err = l.Kube.CoreV1().ConfigMaps(ours).Patch(ctx, watcher.ConfigName("holdfast"), apitypes.MergePatchType, patch, metav1.PatchOptions{FieldManager: "helm"})
	Expect(err).NotTo(HaveOccurred())
	for _, node := range nodes {
		Eventually(chained).WithContext(ctx).WithArguments(node).Should(ContainSubstring(resolver))
	}
	return time.Since(began).Round(100 * time.Millisecond)
}

func pluginJSON(ctx context.Context, l *lab.Lab) string {
	GinkgoHelper()
	cm, err := l.Kube.CoreV1().ConfigMaps(ours).Get(ctx, watcher.ConfigName("holdfast"), metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return cm.Data[watcher.PluginKey]
}
