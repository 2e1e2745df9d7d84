package cluster_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/holdfast-cni/holdfast/configmap"
)

var nodeConfigs = schema.GroupVersionResource{Group: "cilium.io", Version: "v2", Resource: "ciliumnodeconfigs"}

func (s *site) nodeConfig(name string, selector, defaults map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig",
		"metadata": map[string]any{"name": name, "namespace": s.cilium},
		"spec":     map[string]any{"nodeSelector": map[string]any{"matchLabels": selector}, "defaults": defaults},
	}}
}

// deploy makes objects the size of Cilium's own: what of them is looked at is the same.
func (s *site) deploy(ctx SpecContext) {
	GinkgoHelper()
	labels := map[string]string{configmap.AgentLabel: configmap.AgentLabelValue}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.cilium, Name: "cilium"}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	ds.Spec.Template.Labels = labels
	ds.Spec.Template.Spec = corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "config", Image: "i", Command: []string{"cilium-dbg", "build-config"}}},
		Containers: []corev1.Container{{Name: "cilium-agent", Image: "i",
			VolumeMounts: []corev1.VolumeMount{{Name: "cni-configuration", MountPath: "/tmp/cni-configuration"}}}},
		Volumes: []corev1.Volume{{Name: "cni-configuration", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configmap.DefaultConfigMap}}}}},
	}
	_, err := plane.Kube.AppsV1().DaemonSets(s.cilium).Create(ctx, ds, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (s *site) node(ctx SpecContext, name string, labels map[string]string) {
	GinkgoHelper()
	_, err := plane.Kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(plane.Kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	})
}

var _ = Describe("findings", func() {
	It("C4: name socket LB inside pods, and go when it is fixed", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx, configmap.KeyKubeProxyReplacement, "true")
		s.watch(ctx)
		Eventually(s.ids(ctx)).Should(ContainElement(configmap.SocketLBInPods))
		Eventually(s.events(ctx)).Should(ContainElement(ContainSubstring("forces socket LB on although bpf-lb-sock is")))
		s.setCilium(ctx, configmap.KeyKubeProxyReplacement, "true", configmap.KeySocketLBHostOnly, "true")
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{}))
		Eventually(s.events(ctx)).Should(ContainElement(HavePrefix("no longer so: ")))
	})

	It("U2: have an Event each, also where two are of one kind", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx, configmap.KeyDebug, "perhaps", configmap.KeySocketLB, "maybe")
		s.watch(ctx)
		Eventually(s.events(ctx)).Should(And(ContainElement(ContainSubstring(`"perhaps"`)), ContainElement(ContainSubstring(`"maybe"`))))
	})

	It("C4: are bounded in number, so that the report fits its ConfigMap", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		client, err := dynamic.NewForConfig(plane.Config)
		Expect(err).NotTo(HaveOccurred())
		for i := range 23 {
			name := fmt.Sprintf("%s-%d", s.cilium, i)
			s.node(ctx, name, map[string]string{"pool": name})
			config := s.nodeConfig(name, map[string]any{"pool": name}, map[string]any{"bpf-lb-sock": "true"})
			_, err := client.Resource(nodeConfigs).Namespace(s.cilium).Create(ctx, config, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		s.setCilium(ctx)
		s.watch(ctx)
		Eventually(s.ids(ctx)).Should(HaveLen(21))
		findings, _ := s.status(ctx)
		Expect(findings).To(ContainElement(HaveField("Object", "3 others")))
	})

	It("C4: name the nodes where a CiliumNodeConfig turns it on, though the definition comes late", func(ctx SpecContext) {
		Expect(plane.RemoveNodeConfigCRD()).To(Succeed())
		s := newSite(ctx, nil)
		s.node(ctx, s.cilium+"-a", map[string]string{"pool": s.cilium})
		s.node(ctx, s.cilium+"-b", nil)
		s.setCilium(ctx)
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
		Expect(plane.NodeConfigCRD()).To(Succeed())
		client, err := dynamic.NewForConfig(plane.Config)
		Expect(err).NotTo(HaveOccurred())
		config := s.nodeConfig("sock", map[string]any{"pool": s.cilium}, map[string]any{"bpf-lb-sock": "true"})
		Eventually(func() error {
			_, err := client.Resource(nodeConfigs).Namespace(s.cilium).Create(ctx, config, metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		Eventually(s.finding).WithContext(ctx).WithArguments(configmap.SocketLBInPods).Should(HaveField("Nodes", []string{s.cilium + "-a"}))
		Expect(client.Resource(nodeConfigs).Namespace(s.cilium).Delete(ctx, "sock", metav1.DeleteOptions{})).To(Succeed())
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{}))
	})

	It("C8: name KPR without an address of the API server for our pods", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx, configmap.KeyKubeProxyReplacement, "true", configmap.KeySocketLBHostOnly, "true")
		s.options.APIAddress = false
		s.watch(ctx)
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{configmap.KubeAPIAddressMissing}))
	})

	It("C8: name agents older than their configuration", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.pod(ctx, "cilium-old", "node-x", metav1.Now().Add(-time3h))
		s.setCilium(ctx)
		s.watch(ctx)
		Eventually(s.finding).WithContext(ctx).WithArguments(configmap.AgentOutdated).Should(HaveField("Nodes", []string{"node-x"}))
	})

	It("say what cannot be read, and write nothing then", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx, configmap.KeyDebug, "true")
		roles := plane.Kube.RbacV1().RoleBindings(s.cilium)
		bindings, err := roles.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=watcher"})
		Expect(err).NotTo(HaveOccurred())
		Expect(bindings.Items).To(HaveLen(1))
		Expect(roles.Delete(ctx, bindings.Items[0].Name, metav1.DeleteOptions{})).To(Succeed())
		s.watch(ctx)
		Eventually(s.finding).WithContext(ctx).WithArguments(configmap.SourceUnreadable).Should(HaveField("Message", ContainSubstring("forbidden")))
		Expect(s.text(ctx)).To(BeEmpty())

		By("going on by itself once the right is granted")
		again := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.cilium, Name: bindings.Items[0].Name}, Subjects: bindings.Items[0].Subjects, RoleRef: bindings.Items[0].RoleRef}
		_, err = roles.Create(ctx, again, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring(`"enable-debug":true`))
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{}))
	})

	It("C8: name a ConfigMap that lies in our namespace instead of Cilium's", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		_, err := plane.Kube.CoreV1().ConfigMaps(s.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configmap.DefaultConfigMap}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		s.watch(ctx)
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{configmap.ConfigMapNamespaceDiffers}))
	})

	It("say of conditions that nothing is known where nothing can be read, and leave a source that is no longer named", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		s.deploy(ctx)
		s.watch(ctx)
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{}))
		sources := func(args ...string) {
			daemonSets := plane.Kube.AppsV1().DaemonSets(s.cilium)
			ds, err := daemonSets.Get(ctx, "cilium", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			ds.Spec.Template.Spec.InitContainers[0].Args = args
			_, err = daemonSets.Update(ctx, ds, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		sources("--source=config-map:cilium-config,config-map:not-granted")
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{configmap.SourceUnreadable}))
		_, conditions := s.status(ctx)
		Expect(conditions).To(HaveEach(HaveField("Status", metav1.ConditionUnknown)))
		sources("--source=config-map:cilium-config")
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{}))
	})

	It("C4: a CiliumNodeConfig that is named as a source counts for every node, and for the list", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		s.deploy(ctx)
		client, err := dynamic.NewForConfig(plane.Config)
		Expect(err).NotTo(HaveOccurred())
		config := s.nodeConfig("named", map[string]any{"no": "node"}, map[string]any{"debug": "true"})
		_, err = client.Resource(nodeConfigs).Namespace(s.cilium).Create(ctx, config, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		daemonSets := plane.Kube.AppsV1().DaemonSets(s.cilium)
		ds, err := daemonSets.Get(ctx, "cilium", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		ds.Spec.Template.Spec.InitContainers[0].Args = []string{"--source=config-map:cilium-config,cilium-node-config:" + s.cilium + "/named"}
		_, err = daemonSets.Update(ctx, ds, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring(`"enable-debug":true`))
	})

	It("follow the ConfigMaps that daemon.configSources names", func(ctx SpecContext) {
		s := newSite(ctx, map[string]any{})
		s.values["cilium"].(map[string]any)["extraConfigMaps"] = []any{"more"}
		s.upgrade(ctx)
		s.setCilium(ctx)
		s.deploy(ctx)
		ds, err := plane.Kube.AppsV1().DaemonSets(s.cilium).Get(ctx, "cilium", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		ds.Spec.Template.Spec.InitContainers[0].Args = []string{"--source=config-map:cilium-config,config-map:more"}
		_, err = plane.Kube.AppsV1().DaemonSets(s.cilium).Update(ctx, ds, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring(`"enable-debug":false`))
		_, err = plane.Kube.CoreV1().ConfigMaps(s.cilium).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Data: map[string]string{"debug": "true"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring(`"enable-debug":true`))
	})
})
