//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/chaining/store"
	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/e2e/crash"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/cri"
)

// crashNode is a node as install-cni sees one: a root of its own with a real containerd in it, and a Node at a real API
// server that has no kubelet.
type crashNode struct {
	root, scratch string // without links
	plane         *controlplane.ControlPlane
	runtime       *cri.Runtime
	arm           string
	args          []string // of install-cni, but for the strategy
	log           *os.File
}

const (
	crashNamespace = "holdfast-crash"
	crashNodeName  = "crash"
	crashSocket    = "/run/containerd.sock"
)

func (n *crashNode) conf() string { return filepath.Join(n.root, "etc/cni/net.d") }
func (n *crashNode) bin() string  { return filepath.Join(n.root, "opt/cni/bin") }

func newCrashNode(ctx context.Context) *crashNode {
	GinkgoHelper()
	work, err := os.MkdirTemp("", "hf") // short: a socket's path is at most 107 bytes
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, work)
	work, err = filepath.EvalSymlinks(work)
	Expect(err).NotTo(HaveOccurred())
	n := &crashNode{root: filepath.Join(work, "r"), scratch: filepath.Join(work, "s")}
	for _, dir := range []string{n.conf(), n.bin(), filepath.Join(n.root, "run"), filepath.Join(n.root, "var/lib/cni/results"), n.scratch} {
		Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	}
	n.log, err = os.Create(filepath.Join(work, "log"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(n.log.Close)

	n.plane, err = controlplane.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(n.plane.Stop)
	Expect(n.plane.Namespace(ctx, crashNamespace)).To(Succeed())
	kubeconfig, err := n.plane.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(work, "kubeconfig"), kubeconfig, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(work, "plugin"), []byte(plugin("second")), 0o755)).To(Succeed())

	n.arm = filepath.Join(work, "arm")
	for path, source := range map[string]string{n.arm: "./crash/arm", filepath.Join(work, "holdfast"): "../cmd/holdfast"} {
		out, err := exec.CommandContext(ctx, "go", "build", "-o", path, source).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
	}
	n.args = []string{filepath.Join(work, "holdfast"), "install-cni", "--kubeconfig", filepath.Join(work, "kubeconfig"), "--namespace", crashNamespace, "--node", crashNodeName,
		"--cilium=false", "--host-root", n.root, "--cri-socket", crashSocket, "--conf-dir", "/etc/cni/net.d", "--bin-dir", "/opt/cni/bin",
		"--binary", filepath.Join(work, "plugin"), "--metrics-bind-address", "0", "--health-probe-bind-address", ""}
	n.containerd(ctx, work)
	return n
}

// containerd runs one whose CNI directories are the node's.
func (n *crashNode) containerd(ctx context.Context, work string) {
	GinkgoHelper()
	find := exec.CommandContext(ctx, "../hack/parts.sh", "containerd")
	find.Stderr = GinkgoWriter
	path, err := find.Output()
	Expect(err).NotTo(HaveOccurred())
	config := fmt.Sprintf(`version = 3
root = '%[1]s/root'
state = '%[1]s/state'
[grpc]
address = '%[2]s'
[plugins.'io.containerd.cri.v1.images']
snapshotter = 'native'
[plugins.'io.containerd.cri.v1.runtime'.cni]
conf_dir = '%[3]s'
bin_dirs = ['%[4]s']
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.internal.v1.opt']
path = '%[1]s/opt'
`, work, filepath.Join(n.root, crashSocket), n.conf(), n.bin())
	file := filepath.Join(work, "containerd.toml")
	Expect(os.WriteFile(file, []byte(config), 0o600)).To(Succeed())
	runtime := exec.Command(strings.TrimSpace(string(path)), "--config", file)
	runtime.Stdout, runtime.Stderr = GinkgoWriter, GinkgoWriter
	Expect(runtime.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(runtime.Process.Signal(os.Interrupt)).To(Succeed())
		_ = runtime.Wait() // its exit code after a signal says nothing
	})
	n.runtime, err = cri.Dial(filepath.Join(n.root, crashSocket), crashSocket)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(n.runtime.Close)
	Eventually(func() error { _, err := n.runtime.Ask(ctx); return err }).WithTimeout(30 * time.Second).Should(Succeed())
}

// reset puts everything as it is before a transition.
func (n *crashNode) reset(ctx context.Context, t transition, old crash.Tree) {
	GinkgoHelper()
	Expect(old.Write(n.conf())).To(Succeed())
	bin := crash.Tree{}
	if t.oldBinary != "" {
		bin["holdfast-cni"] = crash.File{Data: []byte(t.oldBinary), Mode: 0o755}
	}
	Expect(bin.Write(n.bin())).To(Succeed())
	labels := map[string]string{watcher.InstalledLabel: "true"}
	entry := t.entry
	if entry == "" {
		entry = t.had
	} else {
		labels[watcher.NodeLabel] = "true"
	}
	kube := n.plane.Kube.CoreV1()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: watcher.ConfigName("holdfast")}, Data: map[string]string{watcher.PluginKey: entry}}
	if _, err := kube.ConfigMaps(crashNamespace).Update(ctx, config, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		_, err = kube.ConfigMaps(crashNamespace).Create(ctx, config, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	} else {
		Expect(err).NotTo(HaveOccurred())
	}
	err := kube.Nodes().Delete(ctx, crashNodeName, metav1.DeleteOptions{})
	Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	_, err = kube.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: crashNodeName, Labels: labels}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// run traces install-cni through a transition.
func (n *crashNode) run(ctx context.Context, t transition, visit func(crash.Stop) crash.Action) error {
	args := n.args
	if t.strategy != "" {
		args = append(args[:len(args):len(args)], "--strategy", string(t.strategy))
	}
	return crash.Trace(ctx, crash.Process{Arm: n.arm, Args: args, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.scratch}, Output: n.log, Dirs: []string{n.conf(), n.bin()}}, visit)
}

// runtimeLoads: the real containerd loads from the directory what libcni does.
func (n *crashNode) runtimeLoads(ctx context.Context) error {
	want, err := crash.Loads(n.conf())
	if err != nil {
		return err
	}
	if err := store.Nudge(n.conf()); err != nil {
		return err
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		have, err := n.loaded(ctx)
		if err == nil && have == want {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("containerd has loaded:\n%s\nnot:\n%s", have, want), err)
		}
	}
}

// loaded is what the runtime says, in the words of crash.Loads.
func (n *crashNode) loaded(ctx context.Context) (string, error) {
	answer, err := n.runtime.Ask(ctx)
	switch {
	case err != nil:
		return "", err
	case answer.Loaded == nil:
		return "", answer.LoadedErr
	case answer.Failure != "":
		return "", errors.New(answer.Failure)
	}
	list := answer.Loaded
	said := list.Name() + " " + list.CNIVersion()
	for _, p := range list.Plugins() {
		text, err := crash.Compact(p.Bytes())
		if err != nil {
			return "", err
		}
		said += "\n" + text
	}
	return said, nil
}
