package install_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/install"
)

func TestInstall(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "install-cni")
}

var (
	plane      *controlplane.ControlPlane
	executable string
)

var _ = BeforeSuite(func(ctx SpecContext) {
	log := slog.New(slog.NewJSONHandler(GinkgoWriter, &slog.HandlerOptions{Level: slog.LevelInfo}))
	slog.SetDefault(log)
	klog.SetLogger(logr.FromSlogHandler(log.Handler()))
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	var err error
	plane, err = controlplane.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	executable = filepath.Join(GinkgoT().TempDir(), "holdfast-cni")
	root, err := controlplane.Root()
	Expect(err).NotTo(HaveOccurred())
	build := exec.CommandContext(ctx, "go", "build", "-o", executable, "./cmd/holdfast-cni")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
})

const (
	entry   = `{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.0.10"]}`
	primary = "10-pods.conflist"
	pods    = `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge","mtu":1450},{"type":"portmap","capabilities":{"portMappings":true}}]}`
)

// machine is a node: a Node of the API server, a root directory, and a runtime.
type machine struct {
	name, namespace, root, conf, bin string
	options                          install.Options
	runtime                          *runtime
}

var machines atomic.Int64

// newMachine has a network and is registered, but nothing of Holdfast's.
func newMachine(ctx context.Context) *machine {
	GinkgoHelper()
	n := machines.Add(1)
	m := &machine{name: fmt.Sprintf("node-%d", n), namespace: fmt.Sprintf("holdfast-%d", n), root: GinkgoT().TempDir()}
	m.conf, m.bin = filepath.Join(m.root, "etc/cni/net.d"), filepath.Join(m.root, "opt/cni/bin")
	for _, dir := range []string{m.conf, m.bin, filepath.Join(m.root, "var/lib/cni/results"), filepath.Join(m.root, "usr")} {
		Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	}
	m.write(primary, pods)
	// The runtime says where the node has them, and reads them where this process does.
	Expect(os.MkdirAll(filepath.Join(m.root, "run/containerd"), 0o755)).To(Succeed())
	m.startRuntime()
	Expect(plane.Namespace(ctx, m.namespace)).To(Succeed())
	m.configure(ctx, map[string]string{watcher.StateKey: watcher.StateInstalled, watcher.PluginKey: entry})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: map[string]string{watcher.NodeLabel: ""}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "example.com/other", Effect: corev1.TaintEffectNoSchedule}}}}
	_, err := plane.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		_ = plane.Kube.CoreV1().Nodes().Delete(ctx, m.name, metav1.DeleteOptions{})
	})
	m.options = install.Options{Node: m.name, Namespace: m.namespace, Release: "hf", HostRoot: m.root, Binary: executable,
		ConfDir: "/etc/cni/net.d", BinDir: "/opt/cni/bin", CheckPlugin: checkPlugin, MetricsAddress: "0"}
	return m
}

func (m *machine) startRuntime() (stop func()) {
	m.runtime, stop = startRuntime(filepath.Join(m.root, "run/containerd/containerd.sock"), m.conf, m.bin)
	return stop
}

func checkPlugin(data []byte, _ ...string) error {
	_, err := chaining.ParseEntry(data)
	return err
}

// configure writes the ConfigMap that the chart makes.
func (m *machine) configure(ctx context.Context, data map[string]string) {
	GinkgoHelper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: watcher.ConfigName("hf")}, Data: data}
	_ = plane.Kube.CoreV1().ConfigMaps(m.namespace).Delete(ctx, cm.Name, metav1.DeleteOptions{})
	_, err := plane.Kube.CoreV1().ConfigMaps(m.namespace).Create(ctx, cm, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// patchConfig changes keys of it in place.
func (m *machine) patchConfig(ctx context.Context, patch string) {
	GinkgoHelper()
	_, err := plane.Kube.CoreV1().ConfigMaps(m.namespace).Patch(ctx, watcher.ConfigName("hf"), types.MergePatchType, []byte(`{"data":`+patch+`}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// start runs install-cni until the spec ends, or stop is called.
func (m *machine) start() (stop func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(install.Run(ctx, plane.Config, m.options, logr.FromSlogHandler(slog.Default().Handler()))).To(Succeed())
	}()
	stop = func() { cancel(); Eventually(done).Should(BeClosed()) }
	DeferCleanup(stop)
	return stop
}

func (m *machine) write(name, text string) {
	GinkgoHelper()
	path := filepath.Join(m.conf, name)
	Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	temp := filepath.Join(m.conf, ".other-writer")
	Expect(os.WriteFile(temp, []byte(text), 0o644)).To(Succeed())
	Expect(os.Rename(temp, path)).To(Succeed())
}

func (m *machine) remove(name string) {
	GinkgoHelper()
	Expect(os.Remove(filepath.Join(m.conf, name))).To(Succeed())
}

// files are all there are under the configuration directory.
func (m *machine) files() []string {
	var all []string
	_ = filepath.WalkDir(m.conf, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(m.conf, path)
			all = append(all, name)
		}
		return nil
	})
	return all
}

func (m *machine) node(ctx context.Context) *corev1.Node {
	node, err := plane.Kube.CoreV1().Nodes().Get(ctx, m.name, metav1.GetOptions{})
	if err != nil {
		return &corev1.Node{}
	}
	return node
}

// state is what the Node says: its label, whether it has our taint, and the condition's reason.
func (m *machine) state(ctx context.Context) string {
	node := m.node(ctx)
	label, registered := node.Labels[watcher.NodeLabel]
	if !registered {
		label = "-"
	}
	text := label
	for _, t := range node.Spec.Taints {
		if t.Key == watcher.Taint {
			text += " tainted"
		}
	}
	if _, installed := node.Labels[watcher.InstalledLabel]; installed {
		text += " installed"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == watcher.ChainedCondition {
			text += " " + string(c.Status) + " " + c.Reason
		}
	}
	return text
}

const opened = "true installed True Chained"

// closed is the state of a node that is closed for a reason.
func closed(reason chaining.Reason) string {
	return "false tainted installed False " + string(reason)
}

func (m *machine) becomes(ctx context.Context, state string) {
	GinkgoHelper()
	Eventually(func() string { return m.state(ctx) }).Should(Equal(state), func() string { return m.message(ctx) })
}

func (m *machine) message(ctx context.Context) string {
	for _, c := range m.node(ctx).Status.Conditions {
		if c.Type == watcher.ChainedCondition {
			return c.Message
		}
	}
	return ""
}
