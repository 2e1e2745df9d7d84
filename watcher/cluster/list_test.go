package cluster_test

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher/cluster"
)

var _ = Describe("the list Cilium reads", func() {
	It("C1: is made before Cilium is there, from Cilium's part and exactly plugin.json", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(HavePrefix(`{
  "cniVersion": "1.0.0",
  "name": "cilium",
  "plugins": [
    {"type":"cilium-cni","enable-debug":false,"log-file":"/var/run/cilium/cilium-cni.log"},
    {`))
		own, err := plane.Kube.CoreV1().ConfigMaps(s.namespace).Get(ctx, s.release+"-holdfast", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.text(ctx)).To(ContainSubstring(strings.TrimSpace(own.Data["plugin.json"])))
		Eventually(func() bool {
			_, conditions := s.status(ctx)
			return meta.IsStatusConditionTrue(conditions, cluster.ListCurrent) && meta.IsStatusConditionTrue(conditions, cluster.PluginValid)
		}).Should(BeTrue())
		Expect(s.ids(ctx)()).To(ContainElement(configmap.CiliumMissing))
	})

	It("C1: follows plugin.json and Cilium's settings", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("10.96.0.10"))
		s.setPlugin(ctx, plugined("10.96.0.11"))
		Eventually(s.text).WithContext(ctx).Should(And(ContainSubstring("10.96.0.11"), Not(ContainSubstring("10.96.0.10"))))
		s.setCilium(ctx, configmap.KeyDebug, "true", configmap.KeyLogFile, "")
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring(`{"type":"cilium-cni","enable-debug":true,"log-file":""}`))
	})

	It("C1: is repaired when edited, stripped of our marks, or deleted", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
		right := s.text(ctx)
		maps := plane.Kube.CoreV1().ConfigMaps(s.cilium)

		for i, patch := range []string{
			`{"data":{"cni-config":"{}"}}`, `{"data":{"cni-config":null}}`, `{"data":{"cni-config":""}}`,
			`{"metadata":{"labels":null,"annotations":null},"data":{"cni-config":"[]"}}`,
		} {
			_, err := maps.Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: fmt.Sprint("editor-", i)})
			Expect(err).NotTo(HaveOccurred())
			Eventually(s.text).WithContext(ctx).Should(Equal(right), patch)
			Eventually(func() map[string]string { cm, _ := s.list(ctx); return cm.Labels }).Should(HaveKey(configmap.ManagedByLabel))
		}
		Expect(maps.Delete(ctx, configmap.DefaultConfigMap, metav1.DeleteOptions{})).To(Succeed())
		Eventually(s.text).WithContext(ctx).Should(Equal(right))
		Eventually(s.events(ctx)).Should(ContainElement(ContainSubstring("editor-0 had changed it")))
	})

	It("C1: keeps what others add beside it", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
		_, err := plane.Kube.CoreV1().ConfigMaps(s.cilium).Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"team":"net"}},"data":{"note":"hello"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		s.setPlugin(ctx, plugined("10.96.0.12"))
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("10.96.0.12"))
		cm, err := s.list(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(cm.Data).To(HaveKeyWithValue("note", "hello"))
		Expect(cm.Annotations).To(HaveKeyWithValue("team", "net"))
	})

	overwrite := func(ctx SpecContext, s *site) {
		_, err := plane.Kube.CoreV1().ConfigMaps(s.cilium).Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType,
			[]byte(`{"data":{"cni-config":"{\"mine\":true}"}}`), metav1.PatchOptions{FieldManager: "gitops"})
		Expect(err).NotTo(HaveOccurred())
	}
	// fight overwrites each repair of the list until the manager is named, and returns how often that was.
	fight := func(ctx SpecContext, s *site) (overwritten int) {
		right := s.text(ctx)
		Eventually(func() string {
			if s.text(ctx) == right {
				overwrite(ctx, s)
				overwritten++
			}
			return s.finding(ctx, configmap.ConfigMapContested).Message
		}).Should(ContainSubstring(`manager "gitops"`))
		return overwritten
	}

	It("C1: backs off from a manager that keeps writing, and names it", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.options.Rival = cluster.Rival{Overwrites: 3, Window: time.Hour, Backoff: time.Hour}
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
		right := s.text(ctx)
		// The last repair may be overwritten before the manager is named, and is not repaired again.
		Expect(fight(ctx, s)).To(Or(Equal(3), Equal(4)), "overwrites until it is named")
		if s.text(ctx) == right {
			overwrite(ctx, s)
		}
		Consistently(s.text, "2s").WithContext(ctx).Should(Equal(`{"mine":true}`))
	})

	It("C1: is right again when a manager stops to write", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.options.Rival = cluster.Rival{Overwrites: 3, Window: time.Hour, Backoff: time.Second}
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
		right := s.text(ctx)
		fight(ctx, s)
		Eventually(s.text).WithContext(ctx).Should(Equal(right))
		Eventually(s.ids(ctx)).Should(Not(ContainElement(configmap.ConfigMapContested)))
	})

	It("C1: backs off from a manager that changes nothing but our marks", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.options.Rival = cluster.Rival{Overwrites: 3, Window: time.Minute, Backoff: time.Minute}
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
		managedBy := func() string { cm, _ := s.list(ctx); return cm.Labels[configmap.ManagedByLabel] }
		Eventually(func() string {
			if managedBy() == configmap.ManagedBy {
				_, err := plane.Kube.CoreV1().ConfigMaps(s.cilium).Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType,
					[]byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm"}}}`), metav1.PatchOptions{FieldManager: "labeller"})
				Expect(err).NotTo(HaveOccurred())
			}
			return s.finding(ctx, configmap.ConfigMapContested).Message
		}).Should(ContainSubstring(`manager "labeller"`))
	})

	It("C2: two releases do not take it from each other for ever", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("10.96.0.10"))
		other := &site{namespace: s.namespace + "-b", cilium: s.cilium, release: "other"}
		Expect(plane.Namespace(ctx, other.namespace)).To(Succeed())
		other.install(ctx, map[string]any{"plugin": map[string]any{"resolvers": []any{"10.96.0.99"}}})
		other.watch(ctx)
		Eventually(other.ids(ctx)).Should(ContainElement(configmap.ConfigMapForeign))
		_, err := plane.Kube.CoreV1().ConfigMaps(s.cilium).Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"holdfast.dev/adopt":"true"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(s.ids(ctx)).Should(Or(ContainElement(configmap.ConfigMapForeign), Not(BeNil())))
		version := func() string { cm, _ := s.list(ctx); return cm.ResourceVersion }
		settled := "" // until two looks a second apart see the same
		Eventually(func() bool { was := settled; settled = version(); return was == settled }, "10s", "1s").Should(BeTrue())
		Consistently(version, "2s").Should(Equal(settled))
	})

	It("C2: a ConfigMap of somebody else's is compared, not touched, until it is given away", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		before := s.createList(ctx, `{"cniVersion":"0.3.1", "name":"cilium","plugins":[{"type":"cilium-cni","mtu":9001,"eni":{"x": 1e3}}, {"type":"holdfast-cni","resolvers":["10.0.0.10"]}]}`)
		maps := plane.Kube.CoreV1().ConfigMaps(s.cilium)
		s.watch(ctx)
		Eventually(s.ids(ctx)).Should(ContainElement(configmap.ConfigMapForeign))
		f := s.finding(ctx, configmap.ConfigMapForeign)
		Expect(f.Differences).To(ContainElement(HaveField("Path", "plugins[1].resolvers[0]")))
		Expect(f.Fix.Command).To(ContainSubstring("holdfast.dev/adopt=true"))
		after, err := s.list(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.ResourceVersion).To(Equal(before.ResourceVersion))

		By("C3: taking it over with every field of Cilium's entry kept")
		_, err = maps.Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType, []byte(`{"metadata":{"annotations":{"holdfast.dev/adopt":"true"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(s.text).WithContext(ctx).Should(And(HavePrefix(`{"cniVersion":"0.3.1", "name":"cilium","plugins":[{"type":"cilium-cni","mtu":9001,"eni":{"x": 1e3}}`),
			ContainSubstring("10.96.0.10"), Not(ContainSubstring("10.0.0.10"))))
		Eventually(s.ids(ctx)).ShouldNot(ContainElement(configmap.ConfigMapForeign))

		By("keeping those fields when it is deleted")
		adopted := s.text(ctx)
		Expect(maps.Delete(ctx, configmap.DefaultConfigMap, metav1.DeleteOptions{})).To(Succeed())
		Eventually(s.text).WithContext(ctx).Should(Equal(adopted))
	})

	It("C2: what another release owns is left to it", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		stop := s.watch(ctx)
		Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
		stop()
		other := &site{namespace: s.namespace + "-b", cilium: s.cilium, release: "other"}
		Expect(plane.Namespace(ctx, other.namespace)).To(Succeed())
		other.install(ctx, nil)
		other.options.Adopt = true // consent to foreign ones is none to another release's
		other.watch(ctx)
		Eventually(other.ids(ctx)).Should(ContainElement(configmap.ConfigMapForeign))
		Expect(other.finding(ctx, configmap.ConfigMapForeign).Message).To(ContainSubstring(s.namespace + "/hf"))
		cm, err := s.list(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(cm.Annotations).To(HaveKeyWithValue(configmap.ReleaseAnnotation, s.namespace+"/hf"))
	})

	It("C3: goes under the key that read-cni-conf names, and moves with it", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx, configmap.KeyReadConf, "/tmp/cni-configuration/mine.json")
		s.watch(ctx)
		keys := func() map[string]string {
			cm, err := s.list(ctx)
			if err != nil {
				return nil
			}
			return cm.Data
		}
		Eventually(keys).Should(And(HaveLen(1), HaveKey("mine.json")))
		s.setCilium(ctx, configmap.KeyReadConf, "/tmp/cni-configuration/other")
		Eventually(keys).Should(And(HaveLen(1), HaveKey("other")))
	})

	DescribeTable("a broken plugin.json never reaches Cilium: the last good list stays and the finding names key and fix",
		func(ctx SpecContext, text, says string) {
			s := newSite(ctx, nil)
			s.setCilium(ctx)
			stop := s.watch(ctx)
			Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
			good := s.text(ctx)
			s.setPlugin(ctx, text)
			Eventually(s.ids(ctx)).Should(ContainElement(configmap.PluginInvalid))
			Expect(s.finding(ctx, configmap.PluginInvalid).Message).To(ContainSubstring(says))
			Expect(s.text(ctx)).To(Equal(good))

			By("repairing to the last good list, also after a restart")
			stop()
			_, err := plane.Kube.CoreV1().ConfigMaps(s.cilium).Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType, []byte(`{"data":{"cni-config":"x"}}`), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			s.watch(ctx)
			Eventually(s.text).WithContext(ctx).Should(Equal(good))
		},
		Entry("zero bytes", "", "plugin.json: empty"),
		Entry("truncated", `{"type":"holdfast-cni","reso`, "plugin.json: "),
		Entry("wrong type", `{"type":1}`, "type"),
		Entry("duplicate key", `{"type":"holdfast-cni","type":"x"}`, `"type"`),
		Entry("a path in type", `{"type":"../holdfast-cni"}`, "type"),
		Entry("an array", `[]`, "object"),
		Entry("unknown key", `{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.0.10"],"x":1}`, "x: unknown key"),
		Entry("a reserved namespace", `{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.0.10"],"governedNamespaces":["kube-system"]}`, "never governed"),
		Entry("huge", `{"type":"holdfast-cni","x":"`+strings.Repeat("x", 900<<10)+`"}`, "plugin.json"),
	)

	It("a plugin.json that was never valid leaves Cilium its own entry", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setPlugin(ctx, "{")
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(And(ContainSubstring("cilium-cni"), Not(ContainSubstring("holdfast-cni"))))
		s.setPlugin(ctx, plugined("10.96.0.10"))
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
	})

	It("of two watchers one acts, and the other goes on when it stops", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		stop := s.watch(ctx)
		Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
		s.watch(ctx)
		stop()
		s.setPlugin(ctx, plugined("10.96.0.13"))
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("10.96.0.13"))
	})
})

// events are the notes of the Events in both namespaces.
func (s *site) events(ctx SpecContext) func() []string {
	return func() []string {
		var notes []string
		for _, namespace := range []string{s.namespace, s.cilium} {
			list, err := plane.Kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, e := range list.Items {
				notes = append(notes, e.Note)
			}
		}
		return notes
	}
}
