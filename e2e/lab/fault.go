package lab

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// Kill ends the node's processes of that exact name with SIGKILL, and fails if there is none.
func (n *Node) Kill(ctx context.Context, process string) error {
	// The kernel keeps 15 characters of a name, and pkill -x compares with those.
	_, err := n.Run(ctx, "pkill", "-KILL", "-x", process[:min(15, len(process))])
	return err
}

// Restart restarts a systemd unit of the node.
func (n *Node) Restart(ctx context.Context, unit string) error {
	_, err := n.Run(ctx, "systemctl", "restart", unit)
	return err
}

// Stop and Start are a node's power switch: /run is lost, and what a unit's start order is, the caller decides by holding
// units back (Hold) before the stop.
func (n *Node) Stop(ctx context.Context) error {
	_, err := n.lab.run(ctx, "docker", "stop", "--time", "0", n.Name)
	return err
}

// Start is the other half of Stop.
func (n *Node) Start(ctx context.Context) error {
	_, err := n.lab.run(ctx, "docker", "start", n.Name)
	return err
}

// Hold keeps a unit from starting at the next boot; the returned function lets it start, then and later.
func (n *Node) Hold(ctx context.Context, unit string) (release func(context.Context) error, err error) {
	if _, err := n.Run(ctx, "systemctl", "disable", unit); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := n.Run(ctx, "systemctl", "enable", "--now", unit)
		return err
	}, nil
}

const manifests = "/etc/kubernetes/manifests"

// StopAPI stops the API server of a control-plane node; the returned function starts it again.
func (n *Node) StopAPI(ctx context.Context) (start func(context.Context) error, err error) {
	const away = "/etc/kubernetes/kube-apiserver.away"
	if _, err := n.Run(ctx, "mv", path.Join(manifests, "kube-apiserver.yaml"), away); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := n.Run(ctx, "mv", away, path.Join(manifests, "kube-apiserver.yaml"))
		return err
	}, nil
}

// FillConf leaves no room in the CNI configuration directory; the returned function gives it back. A small file system
// lies over the directory meanwhile, with the same files in it.
func (n *Node) FillConf(ctx context.Context) (undo func(context.Context) error, err error) {
	return n.overConf(ctx, `mount -t tmpfs -o size=64k,mode=0700 tmpfs "$1"; cp -a "$2/." "$1/"; dd if=/dev/zero of="$1/.full" bs=4k 2>/dev/null || true`)
}

// ReadOnlyConf makes the CNI configuration directory read-only; the returned function undoes it.
func (n *Node) ReadOnlyConf(ctx context.Context) (undo func(context.Context) error, err error) {
	return n.overConf(ctx, `mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"`)
}

func (n *Node) overConf(ctx context.Context, script string) (func(context.Context) error, error) {
	const copyOf = "/run/conf-before"
	script = `rm -rf "$2"; cp -a "$1" "$2"; ` + script
	if _, err := n.Run(ctx, "sh", "-ec", script, "sh", ConfDir, copyOf); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := n.Run(ctx, "umount", ConfDir)
		return err
	}, nil
}

// CutAPI drops the node's own traffic to the API server; the returned function lets it through again.
func (n *Node) CutAPI(ctx context.Context) (undo func(context.Context) error, err error) {
	rules := `add table inet e2e_cut
add chain inet e2e_cut out { type filter hook output priority -150; }
add rule inet e2e_cut out tcp dport 6443 drop
`
	if _, err := n.lab.feed(ctx, strings.NewReader(rules), "docker", "exec", "-i", n.Name, "nft", "-f", "-"); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := n.Run(ctx, "nft", "delete", "table", "inet", "e2e_cut")
		return err
	}, nil
}

// Rename and Truncate are what other vendors do to files of the CNI configuration directory.
func (n *Node) Rename(ctx context.Context, from, to string) error {
	_, err := n.Run(ctx, "mv", path.Join(ConfDir, from), path.Join(ConfDir, to))
	return err
}

// Truncate cuts a file of the CNI configuration directory to so many bytes.
func (n *Node) Truncate(ctx context.Context, file string, bytes int) error {
	_, err := n.Run(ctx, "truncate", "--size", fmt.Sprint(bytes), path.Join(ConfDir, file))
	return err
}
