//go:build e2e

package e2e

import (
	"context"
	"net/url"
	"strconv"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/e2e/lab"
	"github.com/holdfast-cni/holdfast/helm"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/cluster"
)

// On a cluster that was not made here there is no image of ours, so the watcher runs in this process, with the rights of the
// chart's ServiceAccount.
var _ = foreign == "" || Describe("any cluster with Cilium, through its kubeconfig alone", Ordered, Label(smoke, ci, full), func() {
	var l *lab.Lab
	options := cluster.Options{Namespace: ours, Release: "holdfast", CiliumNamespace: ciliums, ConfigMap: configmap.DefaultConfigMap,
		FastSync: true, APIAddress: true, MetricsAddress: "0"}
	before := ""

	BeforeAll(func(ctx SpecContext) {
		var err error
		l, err = lab.Attach(foreign, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		host, err := url.Parse(l.Config.Host)
		Expect(err).NotTo(HaveOccurred())
		port, err := strconv.Atoi(host.Port())
		Expect(err).NotTo(HaveOccurred())
		install(ctx, l, host.Hostname(), "", map[string]any{"image": map[string]any{},
			"kubernetesApi": map[string]any{"host": host.Hostname(), "port": port}})
		DeferCleanup(func(ctx context.Context) {
			Expect(helm.Uninstall(ctx, l.Config, helm.ReleaseOptions{Release: "holdfast", Namespace: ours, DisableHooks: true})).To(Succeed())
			Expect(l.Kube.CoreV1().Namespaces().Delete(ctx, ours, metav1.DeleteOptions{})).To(Succeed())
		})
		if cm, err := l.Kube.CoreV1().ConfigMaps(ciliums).Get(ctx, configmap.DefaultConfigMap, metav1.GetOptions{}); err == nil {
			before = cm.Data[configmap.DefaultKey]
		}
		token, err := l.Kube.CoreV1().ServiceAccounts(ours).CreateToken(ctx, "holdfast-watcher", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		config := rest.AnonymousClientConfig(l.Config)
		config.BearerToken = token.Status.Token
		running, stop := context.WithCancel(context.Background())
		DeferCleanup(stop)
		go func() {
			defer GinkgoRecover()
			Expect(cluster.Run(running, config, options, logr.Discard())).To(Succeed())
		}()
	})

	It("C2: a list that was there is taken over only with consent", func(ctx SpecContext) {
		if before == "" {
			return // there was none: the watcher makes it
		}
		Eventually(func() []configmap.Finding { return findings(ctx, l) }).Should(ContainElement(HaveField("ID", configmap.ConfigMapForeign)))
		Expect(list(ctx, l)).To(Equal(before))
		_, err := l.Kube.CoreV1().ConfigMaps(ciliums).Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"holdfast.dev/adopt":"true"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("C1: the list holds Cilium's entry and the plugin's", func(ctx SpecContext) {
		Eventually(func() string { return list(ctx, l) }).Should(And(ContainSubstring("cilium-cni"), ContainSubstring("holdfast-cni")))
	})

	It("C6: every agent's pod is asked to sync it", func(ctx SpecContext) {
		Eventually(func() []string {
			var digests []string
			for _, pod := range agents(ctx, l) {
				digests = append(digests, pod.Annotations[watcher.SyncAnnotation])
			}
			return digests
		}).Should(And(Not(BeEmpty()), HaveEach(HavePrefix("sha256:"))))
	})

	It("C9: leaving gives back what was there", func(ctx SpecContext) {
		Expect(cluster.Leave(ctx, l.Config, options, GinkgoWriter)).To(Succeed())
		if before != "" {
			Expect(list(ctx, l)).To(Equal(before))
		}
		Expect(list(ctx, l)).To(And(ContainSubstring("cilium-cni"), Not(ContainSubstring("holdfast-cni"))))
	})
})
