//go:build e2e

package e2e

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	var before *corev1.ConfigMap // nil where there was none

	BeforeAll(func(ctx SpecContext) {
		var err error
		l, err = lab.Attach(foreign, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		before, err = l.Kube.CoreV1().ConfigMaps(ciliums).Get(ctx, configmap.DefaultConfigMap, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			before, err = nil, nil
		}
		Expect(err).NotTo(HaveOccurred())
		host, err := url.Parse(l.Config.Host)
		Expect(err).NotTo(HaveOccurred())
		port, err := strconv.Atoi(host.Port())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx context.Context) { giveBack(ctx, l, before) })
		install(ctx, l, host.Hostname(), "", map[string]any{"image": map[string]any{},
			"kubernetesApi": map[string]any{"host": host.Hostname(), "port": port}})
		token, err := l.Kube.CoreV1().ServiceAccounts(ours).CreateToken(ctx, "holdfast-watcher", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		config := rest.AnonymousClientConfig(l.Config)
		config.BearerToken = token.Status.Token
		running, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		DeferCleanup(func() { stop(); <-done })
		go func() {
			defer GinkgoRecover()
			defer close(done)
			Expect(cluster.Run(running, config, options, logr.Discard())).To(Succeed())
		}()
	}, NodeTimeout(5*time.Minute))
	AfterEach(func(ctx SpecContext) { collectOnFailure(ctx, l) }, NodeTimeout(5*time.Minute))

	It("C2: a list that was there is taken over only with consent", func(ctx SpecContext) {
		if before == nil || before.Labels[configmap.ManagedByLabel] == configmap.ManagedBy {
			Skip("there was none, or one that Holdfast had let go of")
		}
		Eventually(findings).WithContext(ctx).WithArguments(l).Should(ContainElement(HaveField("ID", configmap.ConfigMapForeign)))
		Expect(list(ctx, l)).To(Equal(before.Data[configmap.DefaultKey]))
		_, err := l.Kube.CoreV1().ConfigMaps(ciliums).Patch(ctx, configmap.DefaultConfigMap, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"holdfast.dev/adopt":"true"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("C1: the list holds Cilium's entry and the plugin's", func(ctx SpecContext) {
		Eventually(list).WithContext(ctx).WithArguments(l).Should(And(ContainSubstring("cilium-cni"), ContainSubstring("holdfast-cni")))
	})

	It("C6: every agent's pod is asked to sync it", func(ctx SpecContext) {
		Eventually(asked).WithContext(ctx).WithArguments(l).Should(And(Not(BeEmpty()), HaveEach(HavePrefix("sha256:"))))
	})

	It("C9: leaving gives back what was there", func(ctx SpecContext) {
		Expect(cluster.Leave(ctx, l.Config, options, GinkgoWriter)).To(Succeed())
		if before != nil {
			Expect(list(ctx, l)).To(MatchJSON(before.Data[configmap.DefaultKey]))
		}
		Expect(list(ctx, l)).To(And(ContainSubstring("cilium-cni"), Not(ContainSubstring("holdfast-cni"))))
	})
})

// giveBack leaves the cluster as it was: the list's ConfigMap with its marks, the agents' annotations, no release of ours.
func giveBack(ctx context.Context, l *lab.Lab, before *corev1.ConfigMap) {
	GinkgoHelper()
	if err := helm.Uninstall(ctx, l.Config, helm.ReleaseOptions{Release: "holdfast", Namespace: ours, DisableHooks: true}); err != nil {
		GinkgoWriter.Println(err) // it was not installed
	}
	maps := l.Kube.CoreV1().ConfigMaps(ciliums)
	if before == nil {
		Expect(client.IgnoreNotFound(maps.Delete(ctx, configmap.DefaultConfigMap, metav1.DeleteOptions{}))).To(Succeed())
	} else {
		now, err := maps.Get(ctx, configmap.DefaultConfigMap, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		now.Data, now.Labels, now.Annotations = before.Data, before.Labels, before.Annotations
		_, err = maps.Update(ctx, now, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	pods, err := agents(ctx, l)
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods {
		_, err := l.Kube.CoreV1().Pods(ciliums).Patch(ctx, pod.Name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+watcher.SyncAnnotation+`":null}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(client.IgnoreNotFound(l.Kube.CoreV1().Namespaces().Delete(ctx, ours, metav1.DeleteOptions{}))).To(Succeed())
	Eventually(func() bool {
		_, err := l.Kube.CoreV1().Namespaces().Get(ctx, ours, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).WithContext(ctx).Should(BeTrue(), "our namespace is gone")
}
