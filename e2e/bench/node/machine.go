package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/e2e/demo/product"
	"github.com/holdfast-cni/holdfast/watcher"
)

// machine is a node: a Node of the API server, a root directory, a containerd, and install-cni.
type machine struct {
	*runtime
	bench              *bench
	name, folder, root string
	strategy           chaining.Strategy
	entry              chaining.Entry
	installer          *product.Process // nil: it does not run
	health             string           // its address
}

// newMachine has a network, and install-cni that has opened the Node.
func (b *bench) newMachine(ctx context.Context, name string, strategy chaining.Strategy) (m *machine, err error) {
	m = &machine{bench: b, name: name, folder: filepath.Join(b.folder, name), strategy: strategy}
	m.root = filepath.Join(m.folder, "root")
	for _, dir := range []string{"etc/cni/net.d", "opt/cni/bin", "var/lib/cni/results", "usr"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o755); err != nil {
			return nil, fmt.Errorf("make a directory: %w", err)
		}
	}
	if m.runtime, err = startRuntime(ctx, b.parts.containerd, m.folder, m.root); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if err := replace(filepath.Join(m.conf, primary), network("pods", 1450)); err != nil {
		return nil, err
	}
	token, err := b.cluster.join(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := b.cluster.proxy.kubeconfig(m.kubeconfig(), token); err != nil {
		return nil, err
	}
	config, err := b.cluster.plane.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, watcher.ConfigName(release), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get the release's ConfigMap: %w", err)
	}
	if m.entry, err = chaining.ParseEntry([]byte(config.Data[watcher.PluginKey])); err != nil {
		return nil, err
	}
	return m, m.start(ctx)
}

func (m *machine) kubeconfig() string { return filepath.Join(m.folder, "kubeconfig") }
func (m *machine) log() string        { return filepath.Join(m.folder, "install-cni.log") }

// start runs install-cni with all that it serves, and waits until it has looked and the Node is open.
func (m *machine) start(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a free port: %w", err)
	}
	m.health = listener.Addr().String()
	listener.Close()
	args := []string{"-c", `log=$1; shift; exec "$@" 2>>"$log"`, "sh", m.log(), m.bench.parts.holdfast, "install-cni", "--kubeconfig", m.kubeconfig(),
		"--namespace", namespace, "--release", release, "--node", m.name, "--cilium=false", "--host-root", m.root, "--cri-socket", socket,
		"--conf-dir", "/etc/cni/net.d", "--bin-dir", "/opt/cni/bin", "--binary", m.bench.parts.plugin,
		"--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", m.health}
	if m.strategy != "" {
		args = append(args, "--strategy", string(m.strategy))
	}
	if m.installer, err = product.Start("/bin/sh", args...); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; {
		node, err := m.bench.cluster.plane.Kube.CoreV1().Nodes().Get(ctx, m.name, metav1.GetOptions{})
		if err == nil && isOpen(node) && m.ready(ctx) {
			return nil
		}
		if m.installer.Exited() || time.Now().After(end) || pause(ctx, 20*time.Millisecond) != nil {
			said, _ := os.ReadFile(m.log())
			return errors.Join(fmt.Errorf("install-cni does not open Node %s; it said: %s", m.name, said), err, ctx.Err())
		}
	}
}

// ready reports whether install-cni has looked at everything once.
func (m *machine) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.health+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func isOpen(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == watcher.Taint {
			return false
		}
	}
	return n.Labels[watcher.NodeLabel] == "true"
}

func (m *machine) stop() error {
	if m.installer == nil {
		return nil
	}
	installer := m.installer
	m.installer = nil
	return installer.Stop(15 * time.Second)
}

func (m *machine) restart(ctx context.Context) error {
	if err := m.stop(); err != nil {
		return err
	}
	return m.start(ctx)
}

func (m *machine) close() error { return errors.Join(m.stop(), m.runtime.close()) }
