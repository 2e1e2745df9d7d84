package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/e2e/demo/product"
	"github.com/holdfast-cni/holdfast/helm"
)

// Names of the installation that is measured.
const (
	release        = "holdfast"
	namespace      = "holdfast"
	serviceAccount = release + "-install-cni"
)

// parts are the paths of the executables that run here.
type parts struct{ holdfast, plugin, containerd string }

// cluster is a control plane with the chart installed, and the proxy through which install-cni reaches it.
type cluster struct {
	plane *controlplane.ControlPlane
	proxy *proxy
}

func (b *bench) start(ctx context.Context) (err error) {
	if b.parts, err = build(ctx, b.folder); err != nil {
		return err
	}
	plane, err := controlplane.Start(ctx)
	if err != nil {
		return err
	}
	b.cluster = &cluster{plane: plane}
	if err := ctx.Err(); err != nil {
		return err
	}
	values, err := product.Values(plane.Config, "10.96.0.10")
	if err != nil {
		return err
	}
	values["cilium"] = map[string]any{"enabled": false}
	chart, err := helm.Chart()
	if err != nil {
		return err
	}
	_, err = helm.Install(ctx, plane.Config, chart, helm.ReleaseOptions{Release: release, Namespace: namespace, Values: values, CreateNamespace: true})
	if err != nil {
		return err
	}
	b.cluster.proxy, err = newProxy(plane.Config)
	return err
}

func (c *cluster) close() error {
	if c.proxy != nil {
		c.proxy.close()
	}
	return c.plane.Stop()
}

// build compiles the product as make build does, and containerd where it is not in the cache yet.
func build(ctx context.Context, folder string) (p parts, err error) {
	root, err := controlplane.Root()
	if err != nil {
		return p, err
	}
	find := exec.CommandContext(ctx, filepath.Join(root, "hack", "parts.sh"), "containerd")
	find.Stderr = os.Stderr
	path, err := find.Output()
	if err != nil {
		return p, fmt.Errorf("find or build containerd: %w", err)
	}
	// No version stamp: git refuses a tree that belongs to somebody else, and nobody asks these binaries.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", folder+"/", "./cmd/...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOTMPDIR="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // the compilers too
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return p, fmt.Errorf("build ./cmd/...: %w: %s", err, out)
	}
	return parts{filepath.Join(folder, "holdfast"), filepath.Join(folder, "holdfast-cni"), strings.TrimSpace(string(path))}, nil
}

// join makes a registered Node, and the token that its kubelet would give to its pod of install-cni: with the rights of the
// chart's ServiceAccount, bound to that Node.
func (c *cluster) join(ctx context.Context, name string) (token string, err error) {
	core := c.plane.Kube.CoreV1()
	if _, err := core.Nodes().Create(ctx, node(name, 0), metav1.CreateOptions{FieldManager: "kubelet"}); err != nil {
		return "", fmt.Errorf("make Node %s: %w", name, err)
	}
	pod, err := core.Pods(namespace).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "install-cni-" + name},
		Spec: corev1.PodSpec{NodeName: name, ServiceAccountName: serviceAccount, Containers: []corev1.Container{{Name: "install-cni", Image: "none"}}}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make the pod of install-cni on Node %s: %w", name, err)
	}
	said, err := core.ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get a token of ServiceAccount %s/%s: %w", namespace, serviceAccount, err)
	}
	if said.Status.Token == "" {
		return "", errors.New("the API server gave an empty token")
	}
	return said.Status.Token, nil
}
