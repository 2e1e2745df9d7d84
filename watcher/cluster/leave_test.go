package cluster_test

import (
	"bytes"
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/helm"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/cluster"
)

var _ = Describe("C9: leaving", func() {
	It("leaves the ConfigMap with Cilium's entry alone, says how to unset it, and lets another release take it", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		stop := s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
		var out bytes.Buffer
		Expect(cluster.Leave(ctx, plane.Config, s.options, &out)).To(Succeed())
		Expect(out.String()).To(ContainSubstring("--set cni.configMap="))
		Expect(s.text(ctx)).To(And(ContainSubstring("cilium-cni"), Not(ContainSubstring("holdfast-cni"))))
		stop()
		Expect(helm.Uninstall(ctx, plane.Config, helm.ReleaseOptions{Release: s.release, Namespace: s.namespace, DisableHooks: true})).To(Succeed())
		Expect(s.text(ctx)).To(ContainSubstring("cilium-cni"))

		s.release = "again"
		s.install(ctx, nil)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{}))
	})

	It("is taken back by an upgrade", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
		Expect(cluster.Leave(ctx, plane.Config, s.options, GinkgoWriter)).To(Succeed())
		s.upgrade(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
	})

	It("names the nodes that are still installed, and the watcher that does not answer", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		err := cluster.Leave(short, plane.Config, s.options, GinkgoWriter)
		Expect(err).To(MatchError(cluster.ErrStay))
		Expect(err).To(MatchError(ContainSubstring("the watcher (kubectl --namespace " + s.namespace)))

		s.node(ctx, s.cilium+"-busy", map[string]string{watcher.InstalledLabel: ""})
		short, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		Expect(cluster.Leave(short, plane.Config, s.options, GinkgoWriter)).To(MatchError(ContainSubstring(s.cilium + "-busy")))
	})

	It("waits for nodes alone where the network is not Cilium's, and names them when the time is over", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		var out bytes.Buffer
		Expect(cluster.LeaveNodes(ctx, plane.Config, s.options, &out)).To(Succeed())
		Expect(out.String()).To(Equal("Holdfast has left the cluster.\n"))

		s.node(ctx, s.cilium+"-one", map[string]string{watcher.InstalledLabel: ""})
		s.node(ctx, s.cilium+"-two", map[string]string{watcher.InstalledLabel: ""})
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		err := cluster.LeaveNodes(short, plane.Config, s.options, GinkgoWriter)
		Expect(err).To(MatchError(cluster.ErrStay))
		Expect(err).To(MatchError(HaveSuffix("not taken out: " + s.cilium + "-one, " + s.cilium + "-two")))
	})

	It("keeps what was adopted", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		base := `{"cniVersion":"0.3.1","name":"cilium","plugins":[{"type":"cilium-cni","mtu":9001}]}`
		s.createList(ctx, base)
		s.options.Adopt = true
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
		Expect(cluster.Leave(ctx, plane.Config, s.options, GinkgoWriter)).To(Succeed())
		Expect(s.text(ctx)).To(Equal(base))
	})

	It("says so where a ConfigMap that is not ours still names the plugin", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		s.createList(ctx, `{"cniVersion":"0.3.1","name":"cilium","plugins":[{"type":"cilium-cni"},{"type":"holdfast-cni"}]}`)
		s.watch(ctx)
		Eventually(s.ids(ctx)).Should(ContainElement(configmap.ConfigMapForeign))
		var out bytes.Buffer
		Expect(cluster.Leave(ctx, plane.Config, s.options, &out)).To(Succeed())
		Expect(out.String()).To(ContainSubstring("still names holdfast-cni: take that out"))
	})

	It("takes ours out in a chaining mode whose list nobody gave", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
		s.setCilium(ctx, configmap.KeyChainingMode, "generic-veth")
		Eventually(s.ids(ctx)).Should(ContainElement(configmap.ChainingListMissing))
		Expect(cluster.Leave(ctx, plane.Config, s.options, GinkgoWriter)).To(Succeed())
		Expect(s.text(ctx)).NotTo(ContainSubstring("holdfast-cni"))
	})

	It("forgets what was adopted once the ConfigMap is deleted after leaving", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		s.createList(ctx, `{"cniVersion":"0.3.1","name":"cilium","plugins":[{"type":"cilium-cni","mtu":9001}]}`)
		s.options.Adopt = true
		stop := s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
		Expect(cluster.Leave(ctx, plane.Config, s.options, GinkgoWriter)).To(Succeed())
		Eventually(func() string {
			status, err := plane.Kube.CoreV1().ConfigMaps(s.namespace).Get(ctx, watcher.StatusName(s.release), metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(status.OwnerReferences).To(HaveLen(1), "it goes with the chart's ConfigMap")
			return status.Data["memory"]
		}).ShouldNot(ContainSubstring("9001"))
		stop()
		Expect(plane.Kube.CoreV1().ConfigMaps(s.cilium).Delete(ctx, configmap.DefaultConfigMap, metav1.DeleteOptions{})).To(Succeed())
		s.upgrade(ctx)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(And(ContainSubstring("holdfast-cni"), Not(ContainSubstring("9001"))))
	})
})
