//go:build e2e

package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/e2e/lab"
)

var _ = describe("Cilium with its defaults", Ordered, ContinueOnFailure, func() {
	var l *lab.Lab
	var nodes []*lab.Node
	var digest string
	BeforeAll(func(ctx SpecContext) {
		l = makeLab(ctx, lab.Options{Name: "e2e-defaults", Net: "cilium-defaults", Flags: []string{"-nodes", "1"}})
		var err error
		nodes, err = l.Nodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		digest, err = l.LoadProduct(ctx)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(20*time.Minute))
	AfterEach(func(ctx SpecContext) { collectOnFailure(ctx, l) }, NodeTimeout(5*time.Minute))

	chartValues := func(strategy string) map[string]any {
		return map[string]any{"cilium": map[string]any{"kubeProxyReplacement": false}, "chain": map[string]any{"strategy": strategy}}
	}

	It("C7: just works where the runtime honours drop-ins", Label(ci), func(ctx SpecContext) {
		install(ctx, l, nodes[0].Name, digest, chartValues(""))
		register(ctx, l, nodes...)
		becomes(ctx, l, opened, nodes...)
		Expect(message(ctx, l, nodes[0])).To(ContainSubstring("strategy drop-in, proof runtime"))
		restartAgents(ctx, l, len(nodes))
		becomes(ctx, l, opened, nodes...)
		Expect(chained(ctx, nodes[0])).To(MatchRegexp(`(?s)^OK .*cilium-cni.*holdfast-cni`))
		startsPod(ctx, l, nodes[0], "behind-cilium")
	}, SpecTimeout(25*time.Minute)) // the cluster is made in it

	It("C7: with a list of our own it is removed three times, then refused: closed, one try a minute, the fix named", Label(full), func(ctx SpecContext) {
		upgrade(ctx, l, nodes[0].Name, digest, chartValues("list"))
		becomes(ctx, l, closed(chaining.StrategyRefused), nodes...)
		Expect(message(ctx, l, nodes[0])).To(ContainSubstring("cni.configMap=holdfast-cni-config"))
		tries := func() int {
			pods, err := installers(ctx, l)
			if err != nil || len(pods) != 1 {
				return -1
			}
			log, err := l.Kube.CoreV1().Pods(ours).GetLogs(pods[0].Name, &corev1.PodLogOptions{}).DoRaw(ctx)
			if err != nil {
				return -1
			}
			return strings.Count(string(log), "somebody removed a file of ours")
		}
		Eventually(tries).WithContext(ctx).Should(BeNumerically(">=", 3))
		before := tries()
		time.Sleep(70 * time.Second)
		Expect(tries()-before).To(BeNumerically("~", 1, 1), "one try a minute")
		Expect(state(ctx, l, nodes[0])).To(Equal(closed(chaining.StrategyRefused)))
		Expect(chained(ctx, nodes[0])).To(HavePrefix("OK"), "pods that are not governed start as before (I2)")
	}, SpecTimeout(8*time.Minute))

	It("C7: opens once the named fix is applied", Label(full), func(ctx SpecContext) {
		Expect(l.Network(ctx, "cilium-kubeproxy")).To(Succeed())
		restartAgents(ctx, l, len(nodes))
		becomes(ctx, l, opened, nodes...)
		startsPod(ctx, l, nodes[0], "fixed")
	}, SpecTimeout(6*time.Minute))
})

// pauseAgent stops Cilium's agent on a node without ending it, so that it heals nothing; the returned function lets it go on.
func pauseAgent(ctx context.Context, node *lab.Node) (resume func(context.Context) error) {
	GinkgoHelper()
	_, err := node.Run(ctx, "pkill", "-STOP", "-x", "cilium-agent")
	Expect(err).NotTo(HaveOccurred())
	return func(ctx context.Context) error {
		_, err := node.Run(ctx, "pkill", "-CONT", "-x", "cilium-agent")
		return err
	}
}
