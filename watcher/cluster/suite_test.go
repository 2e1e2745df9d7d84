package cluster_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/helm"
	"github.com/holdfast-cni/holdfast/plugin"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/cluster"
)

func TestCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "cluster watcher")
}

var plane *controlplane.ControlPlane

var _ = BeforeSuite(func(ctx SpecContext) {
	log := slog.New(slog.NewJSONHandler(GinkgoWriter, &slog.HandlerOptions{Level: slog.LevelInfo}))
	slog.SetDefault(log)
	klog.SetLogger(logr.FromSlogHandler(log.Handler()))
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	var err error
	plane, err = controlplane.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	Expect(plane.NodeConfigCRD()).To(Succeed())
})

// site is one installation: a release of the chart and the namespace that stands for Cilium's.
type site struct {
	namespace, cilium, release string
	values                     map[string]any
	options                    cluster.Options
}

var sites atomic.Int64

// newSite makes both namespaces and installs the chart, with the values over the least it needs.
func newSite(ctx context.Context, values map[string]any) *site {
	GinkgoHelper()
	n := sites.Add(1)
	s := &site{namespace: fmt.Sprintf("holdfast-%d", n), cilium: fmt.Sprintf("cilium-%d", n), release: "hf"}
	Expect(plane.Namespace(ctx, s.namespace)).To(Succeed())
	Expect(plane.Namespace(ctx, s.cilium)).To(Succeed())
	s.install(ctx, values)
	return s
}

func (s *site) install(ctx context.Context, values map[string]any) {
	GinkgoHelper()
	s.values = map[string]any{
		"plugin": map[string]any{"resolvers": []any{"10.96.0.10"}},
		"cilium": map[string]any{"namespace": s.cilium},
	}
	for key, value := range values {
		s.values[key] = value
	}
	chart, err := helm.Chart()
	Expect(err).NotTo(HaveOccurred())
	_, err = helm.Install(ctx, plane.Config, chart, helm.ReleaseOptions{Release: s.release, Namespace: s.namespace, Values: s.values, DisableHooks: true})
	Expect(err).NotTo(HaveOccurred())
	s.options = cluster.Options{
		Namespace: s.namespace, Release: s.release, CiliumNamespace: s.cilium, ConfigMap: configmap.DefaultConfigMap,
		FastSync: true, APIAddress: true, MetricsAddress: "0", CheckPlugin: checkPlugin,
	}
}

func checkPlugin(data []byte, reserved ...string) error {
	_, err := plugin.ParseConfig(data, reserved...)
	return err
}

// watch runs a watcher with the rights of the chart's ServiceAccount until the spec ends, or stop is called.
func (s *site) watch(ctx context.Context) (stop func()) {
	GinkgoHelper()
	config, err := plane.As(ctx, s.namespace, s.release+"-watcher")
	Expect(err).NotTo(HaveOccurred())
	return s.watchAs(config)
}

func (s *site) watchAs(config *rest.Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(cluster.Run(ctx, config, s.options, logr.FromSlogHandler(slog.Default().Handler()))).To(Succeed())
	}()
	stop = func() { cancel(); Eventually(done).Should(BeClosed()) }
	DeferCleanup(stop)
	return stop
}

// list is the ConfigMap that Cilium reads.
func (s *site) list(ctx context.Context) (*corev1.ConfigMap, error) {
	return plane.Kube.CoreV1().ConfigMaps(s.cilium).Get(ctx, configmap.DefaultConfigMap, metav1.GetOptions{})
}

// createList makes the ConfigMap as somebody else would.
func (s *site) createList(ctx context.Context, text string) *corev1.ConfigMap {
	GinkgoHelper()
	cm, err := plane.Kube.CoreV1().ConfigMaps(s.cilium).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: configmap.DefaultConfigMap}, Data: map[string]string{configmap.DefaultKey: text},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return cm
}

// text is what Cilium would read under the chart's default key, or "".
func (s *site) text(ctx context.Context) string {
	cm, err := s.list(ctx)
	if err != nil {
		return ""
	}
	return cm.Data[configmap.DefaultKey]
}

// status reads the findings and conditions that the watcher reports.
func (s *site) status(ctx context.Context) (findings []configmap.Finding, conditions []metav1.Condition) {
	cm, err := plane.Kube.CoreV1().ConfigMaps(s.namespace).Get(ctx, watcher.StatusName(s.release), metav1.GetOptions{})
	if err != nil {
		return nil, nil
	}
	Expect(yaml.Unmarshal([]byte(cm.Data["findings"]), &findings)).To(Succeed())
	Expect(yaml.Unmarshal([]byte(cm.Data["conditions"]), &conditions)).To(Succeed())
	return findings, conditions
}

// ids are the kinds of the findings reported now.
func (s *site) ids(ctx context.Context) func() []configmap.ID {
	return func() []configmap.ID {
		ids := []configmap.ID{}
		findings, _ := s.status(ctx)
		for _, f := range findings {
			ids = append(ids, f.ID)
		}
		return ids
	}
}

// finding is the first one of the kind.
func (s *site) finding(ctx context.Context, id configmap.ID) configmap.Finding {
	findings, _ := s.status(ctx)
	for _, f := range findings {
		if f.ID == id {
			return f
		}
	}
	return configmap.Finding{}
}

// setPlugin writes plugin.json as a person would.
func (s *site) setPlugin(ctx context.Context, text string) {
	GinkgoHelper()
	maps := plane.Kube.CoreV1().ConfigMaps(s.namespace)
	cm, err := maps.Get(ctx, watcher.ConfigName(s.release), metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	cm.Data[watcher.PluginKey] = text
	_, err = maps.Update(ctx, cm, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
	Expect(err).NotTo(HaveOccurred())
}

// setCilium writes cilium-config: what the chart sets where nothing is wrong, changed by the pairs; "-" takes a key out.
func (s *site) setCilium(ctx context.Context, pairs ...string) {
	GinkgoHelper()
	data := map[string]string{
		configmap.KeyKubeProxyReplacement: "false", configmap.KeySocketLB: "false", configmap.KeyExclusive: "true",
		configmap.KeyWriteConf: "/host/etc/cni/net.d/05-cilium.conflist", configmap.KeyReadConf: "/tmp/cni-configuration/cni-config",
		configmap.KeyLogFile: "/var/run/cilium/cilium-cni.log", configmap.KeyDebug: "false",
	}
	for i := 0; i < len(pairs); i += 2 {
		if data[pairs[i]] = pairs[i+1]; pairs[i+1] == "-" {
			delete(data, pairs[i])
		}
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.cilium, Name: configmap.DefaultConfigName}, Data: data}
	maps := plane.Kube.CoreV1().ConfigMaps(s.cilium)
	if _, err := maps.Create(ctx, cm, metav1.CreateOptions{}); err == nil {
		return
	}
	_, err := maps.Update(ctx, cm, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func plugined(resolver string) string {
	return fmt.Sprintf(`{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":[%q]}`, resolver)
}
