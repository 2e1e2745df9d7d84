//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-cni/holdfast/e2e/lab"
)

var _ = describe("every network that kind-up knows", Label(full), func() {
	DescribeTable("carries pods that talk by Service name on two nodes", func(ctx SpecContext, network string, flags ...string) {
		l := makeLab(ctx, lab.Options{Name: "e2e-net", Net: network, Flags: flags})
		DeferCleanup(func(ctx context.Context) { collectOnFailure(ctx, l) })
		if network == "late" {
			Expect(notReady(ctx, l)).NotTo(BeEmpty())
			Expect(l.Network(ctx, "ptp")).To(Succeed())
		}
		nodes, err := l.Nodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		servePods(ctx, l, nodes, "talk")
		for _, node := range nodes {
			Eventually(l.Exec).WithContext(ctx).WithArguments("talk", "pod-"+node.Name, "/probe", "get", "http://talk.talk.svc.cluster.local:8080/").
				Should(ContainSubstring("pod-"))
		}
		report("network %s, flags %v: plugins loaded on %s: %s", network, flags, nodes[0].Name, loadedTypes(ctx, nodes[0]))
	},
		func(network string, flags ...string) string { return fmt.Sprint(network, " ", flags) },
		Entry(nil, SpecTimeout(15*time.Minute), "cilium"),
		Entry(nil, SpecTimeout(15*time.Minute), "cilium", "-nodes", "3"),
		Entry(nil, SpecTimeout(15*time.Minute), "cilium", "-dual"),
		Entry(nil, SpecTimeout(15*time.Minute), "cilium-kubeproxy"),
		Entry(nil, SpecTimeout(15*time.Minute), "cilium-defaults"),
		Entry(nil, SpecTimeout(15*time.Minute), "ptp"),
		Entry(nil, SpecTimeout(15*time.Minute), "ptp", "-dual"),
		Entry(nil, SpecTimeout(15*time.Minute), "bridge"),
		Entry(nil, SpecTimeout(15*time.Minute), "flannel-conf"),
		Entry(nil, SpecTimeout(15*time.Minute), "late"),
	)
})
