package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// LoadSidecar brings an image to every node that stands for a sidecar, and returns its name by digest: the probe, run as the
// sidecar's own user. The product's sidecar is built in an issue of its own.
func (l *Lab) LoadSidecar(ctx context.Context) (image string, err error) {
	folder := filepath.Join(l.folder, "sidecar")
	if err := l.build(ctx, "./kind/image/probe", filepath.Join(folder, "probe")); err != nil {
		return "", err
	}
	const recipe = "FROM scratch\nCOPY probe /probe\nUSER 64128:64128\nENTRYPOINT [\"/probe\"]\n"
	if err := os.WriteFile(filepath.Join(folder, "Dockerfile"), []byte(recipe), 0o644); err != nil {
		return "", fmt.Errorf("write the sidecar's Dockerfile: %w", err)
	}
	tag := "localhost/holdfast-sidecar:" + l.Name
	if _, err := l.run(ctx, "docker", "build", "--quiet", "--tag", tag, folder); err != nil {
		return "", err
	}
	byDigest, err := l.run(ctx, l.kind, "load", "-name", l.Name, tag)
	return strings.TrimSpace(byDigest), err
}

// Counter counts packets on a node's side of every pod's link.
type Counter struct{ node *Node }

const (
	// Probe is the probe on a node whose packets are counted.
	Probe   = "/run/e2e-probe"
	counted = "/run/e2e-counted"
)

// CountPackets begins to count those to some ports. LoadSidecar comes first.
func (n *Node) CountPackets(ctx context.Context, ports ...int) (Counter, error) {
	content, err := os.ReadFile(filepath.Join(n.lab.folder, "sidecar", "probe"))
	if err != nil {
		return Counter{}, fmt.Errorf("read the probe that LoadSidecar built: %w", err)
	}
	if err := n.Write(ctx, Probe, content, 0o755); err != nil {
		return Counter{}, err
	}
	script := fmt.Sprintf("mount -o remount,exec /run; setsid %s count %s >> %s 2>&1 < /dev/null &", Probe, strings.Trim(fmt.Sprint(ports), "[]"), counted)
	_, err = n.Shell(ctx, script)
	return Counter{n}, err
}

// Seen returns the last lines of packets to a port, one for each.
func (c Counter) Seen(ctx context.Context, port int) (string, error) {
	out, err := c.node.Shell(ctx, fmt.Sprintf(`grep "^%d " %s | tail -n 20 || true`, port, counted))
	if err != nil || out == "" {
		return "", err
	}
	return c.node.Name + ": " + out, nil
}

// Forget lets Seen return only what is counted from now on.
func (c Counter) Forget(ctx context.Context) error {
	_, err := c.node.Shell(ctx, ": > "+counted)
	return err
}
