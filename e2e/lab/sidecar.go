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
	const tag = "localhost/holdfast-sidecar:e2e"
	if _, err := l.run(ctx, "docker", "build", "--quiet", "--tag", tag, folder); err != nil {
		return "", err
	}
	byDigest, err := l.run(ctx, l.kind, "load", "-name", l.Name, tag)
	return strings.TrimSpace(byDigest), err
}

// CountPackets counts, on the node's side of every pod's link, the packets to a port; seen returns a line for each.
func (n *Node) CountPackets(ctx context.Context, port int) (seen func(context.Context) (string, error), err error) {
	content, err := os.ReadFile(filepath.Join(n.lab.folder, "sidecar", "probe"))
	if err != nil {
		return nil, fmt.Errorf("read the probe that LoadSidecar built: %w", err)
	}
	if err := n.Write(ctx, "/run/e2e-probe", content, 0o755); err != nil {
		return nil, err
	}
	script := fmt.Sprintf("mount -o remount,exec /run; setsid /run/e2e-probe count %d > /run/e2e-count-%d 2>&1 < /dev/null &", port, port)
	if _, err := n.Shell(ctx, script); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) { return n.Read(ctx, fmt.Sprintf("/run/e2e-count-%d", port)) }, nil
}
