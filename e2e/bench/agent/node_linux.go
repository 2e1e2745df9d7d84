package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/watcher"
)

const (
	own, agents, name = "holdfast-system", "agents", "node"
	image             = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	metricsAt         = "127.0.0.1:19645"
	healthAt          = "127.0.0.1:19646"
)

// node is one with an agent, its pods, an API server and a runtime.
type node struct {
	plane   *controlplane.ControlPlane
	runtime *sandboxes
	server  *grpc.Server
	agent   *exec.Cmd
	stderr  io.Writer
	made    int
}

func newNode(ctx context.Context, folder, executable string, stderr io.Writer) (n *node, err error) {
	n = &node{stderr: stderr}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.stop())
		}
	}()
	if n.plane, err = controlplane.Start(ctx); err != nil {
		return n, err
	}
	if err := n.populate(ctx); err != nil {
		return n, err
	}
	if n.runtime, n.server, err = serveRuntime("/run/containerd/containerd.sock"); err != nil {
		return n, err
	}
	kubeconfig, err := n.plane.Kubeconfig()
	if err != nil {
		return n, err
	}
	path := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return n, err
	}
	log, err := os.Create(filepath.Join(os.TempDir(), "bench-agent.log"))
	if err != nil {
		return n, err
	}
	n.agent = exec.Command(executable, "agent", "--kubeconfig="+path, "--namespace="+own, "--node="+name, "--host-root=/",
		"--memory="+filepath.Join(folder, "memory"), "--metrics-bind-address="+metricsAt, "--health-probe-bind-address="+healthAt)
	n.agent.Stderr = log
	n.agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.agent.Start(); err != nil {
		return n, err
	}
	return n, n.waitReady(ctx)
}

func (n *node) populate(ctx context.Context) error {
	for _, namespace := range []string{own, agents} {
		if err := n.plane.Namespace(ctx, namespace); err != nil {
			return err
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := n.plane.Kube.CoreV1().ServiceAccounts(agents).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: watcher.ConfigName("holdfast")}, Data: map[string]string{
		watcher.StateKey: watcher.StateInstalled,
		watcher.PluginKey: `{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.0.10","fd00::a"],` +
			`"governedNamespaces":["` + agents + `"],"allowPrivate":["10.1.0.0/16"],"sidecar":{"images":["` + image + `"]},"ingress":{"ports":[8080]}}`,
	}}
	if _, err := n.plane.Kube.CoreV1().ConfigMaps(own).Create(ctx, config, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := n.plane.Kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func (n *node) stop() error {
	var errs []error
	if n.agent != nil && n.agent.Process != nil {
		errs = append(errs, n.agent.Process.Signal(syscall.SIGTERM), n.agent.Wait())
	}
	if n.server != nil {
		n.server.Stop()
	}
	if n.plane != nil {
		errs = append(errs, n.plane.Stop())
	}
	return errors.Join(errs...)
}

func (n *node) waitReady(ctx context.Context) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		response, err := http.Get("http://" + healthAt + "/readyz")
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("the agent isn't ready; see %s", filepath.Join(os.TempDir(), "bench-agent.log"))
}

// adopted makes a pod, its namespace and its sandbox, and has the agent adopt it, as the plugin does.
func (n *node) adopted(ctx context.Context, i int) error {
	pod, err := n.plane.Kube.CoreV1().Pods(agents).Create(ctx, somePod(i), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%064x", i)
	path, err := newNetns(id)
	if err != nil {
		return err
	}
	netns, err := lock.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = netns.Close() }() // the agent has its own
	locked, err := rules()
	if err != nil {
		return err
	}
	record, err := netns.Apply(locked)
	if err != nil {
		return err
	}
	kept, err := json.Marshal(record)
	if err != nil {
		return err
	}
	boot, err := adopt.Boot()
	if err != nil {
		return err
	}
	r := adopt.Request{Version: adopt.Version, ContainerID: id, NetNS: path, Device: netns.ID().Device, Inode: netns.ID().Inode, Boot: boot,
		Namespace: agents, Name: pod.Name, UID: string(pod.UID), Rules: locked.Digest(), Record: kept}
	if err := (adopt.Store{Folder: adopt.States}).Write(r); err != nil {
		return err
	}
	if err := adopt.Adopt(ctx, adopt.Socket, r); err != nil {
		return fmt.Errorf("pod %d: %w", i, err)
	}
	n.runtime.add(id, agents, pod.Name, string(pod.UID), path)
	return nil
}

// usage is what the agent used in a window.
type usage struct {
	cpu, punctual float64
	memory        int64
	renewals      int
}

// measure brings the node to so many pods, and measures the agent for a while.
func (n *node) measure(ctx context.Context, pods int, o options) (usage, error) {
	_, _ = fmt.Fprintf(n.stderr, "bench: %d pods\n", pods)
	var group errgroup.Group
	group.SetLimit(4)
	for ; n.made < pods; n.made++ {
		i := n.made
		group.Go(func() error { return n.adopted(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		return usage{}, err
	}
	if err := n.told(ctx); err != nil {
		return usage{}, err
	}
	sleep(ctx, o.settle)
	began := time.Now()
	before, err := n.read()
	if err != nil {
		return usage{}, err
	}
	sleep(ctx, o.window)
	after, err := n.read()
	took := time.Since(began)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return usage{}, err
	}
	renewals := after.renewals - before.renewals
	return usage{
		cpu: (after.cpu - before.cpu).Seconds() / took.Seconds(), memory: after.memory, renewals: int(renewals),
		punctual: (after.punctual - before.punctual) / renewals,
	}, nil
}

// told waits until the agent has written what it does once for each pod: it is measured what it costs to keep pods, not to begin.
func (n *node) told(ctx context.Context) error {
	for ; ctx.Err() == nil; sleep(ctx, time.Second) {
		if now, err := n.read(); err != nil || now.pods == float64(n.made) && now.marks == 0 {
			return err
		}
	}
	return ctx.Err()
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// reading is of counters that only grow, but for the memory, in bytes.
type reading struct {
	cpu                time.Duration
	memory             int64
	punctual, renewals float64
	pods, marks        float64
}

func (n *node) read() (r reading, err error) {
	if r.cpu, err = figure.CPU(n.agent.Process.Pid); err != nil {
		return r, err
	}
	r.memory = figure.RssAnon(n.agent.Process.Pid)
	response, err := http.Get("http://" + metricsAt + "/metrics")
	if err != nil {
		return r, err
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), " ")
		switch number, err := strconv.ParseFloat(value, 64); {
		case err != nil:
		case key == `holdfast_agent_renewal_delay_seconds_bucket{le="0.1"}`:
			r.punctual = number
		case key == "holdfast_agent_renewal_delay_seconds_count":
			r.renewals = number
		case key == "holdfast_agent_pods":
			r.pods = number
		case key == "holdfast_agent_pending_marks":
			r.marks = number
		}
	}
	return r, nil
}

// somePod keeps the contract, and is one of which the agent has told that it is locked: client-go sends but a few Events a second.
func somePod(i int) *corev1.Pod {
	restricted := func(user int64) *corev1.SecurityContext {
		return &corev1.SecurityContext{RunAsUser: &user, RunAsGroup: &user, AllowPrivilegeEscalation: ptr.To(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("agent-%d", i), Labels: map[string]string{"app": "agent"},
		Annotations: map[string]string{watcher.ProofAnnotation: "by another agent"}}, Spec: corev1.PodSpec{
		NodeName: name, AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		InitContainers: []corev1.Container{{
			Name: "sidecar", Image: "holdfast@" + image, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), SecurityContext: restricted(lock.SidecarUID),
			StartupProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(lock.HealthPort)}}},
		}},
		Containers: []corev1.Container{{Name: "agent", Image: "agent", SecurityContext: restricted(1000)}, {Name: "tools", Image: "tools", SecurityContext: restricted(1001)}},
	}}
}
