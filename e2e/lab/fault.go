package lab

import (
	"context"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// SmallConf makes the CNI configuration directory a small file system of its own, with the same files in it, and restarts
// the runtime, which then watches that. Pods that are started after it meet what FillConf and ReadOnlyConf do to it.
func (n *Node) SmallConf(ctx context.Context) error {
	_, err := n.Run(ctx, "sh", "-ec", `mountpoint -q "$1" && exit
rm -rf /run/conf; cp -a "$1" /run/conf
mount -t tmpfs -o size=256k,mode=0755 tmpfs "$1"; cp -a /run/conf/. "$1/"
systemctl restart containerd`, "sh", ConfDir)
	return err
}

// FillConf leaves no room in the CNI configuration directory, for anybody; the returned function gives it back.
func (n *Node) FillConf(ctx context.Context) (undo func(context.Context) error, err error) {
	if err := n.SmallConf(ctx); err != nil {
		return nil, err
	}
	return n.doUndo(ctx, `dd if=/dev/zero of="$1/.full" bs=4k 2> /dev/null || true`, `rm "$1/.full"`)
}

// ReadOnlyConf makes the CNI configuration directory read-only, for anybody; the returned function undoes it.
func (n *Node) ReadOnlyConf(ctx context.Context) (undo func(context.Context) error, err error) {
	if err := n.SmallConf(ctx); err != nil {
		return nil, err
	}
	return n.doUndo(ctx, `mount -o remount,ro "$1"`, `mount -o remount,rw "$1"`)
}

func (n *Node) doUndo(ctx context.Context, do, undo string) (func(context.Context) error, error) {
	if _, err := n.Run(ctx, "sh", "-ec", do, "sh", ConfDir); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := n.Run(ctx, "sh", "-ec", undo, "sh", ConfDir)
		return err
	}, nil
}

// HoldPods takes a DaemonSet's pods off every node until the returned function lets them start again: with it a test
// chooses the order in which Cilium's pods and ours come after a reboot.
func (l *Lab) HoldPods(ctx context.Context, namespace, daemonSet string) (release func(context.Context) error, err error) {
	patch := func(ctx context.Context, value string) error {
		body := fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{"e2e/held":%s}}}}}`, value)
		_, err := l.Kube.AppsV1().DaemonSets(namespace).Patch(ctx, daemonSet, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	if err := patch(ctx, `"true"`); err != nil {
		return nil, fmt.Errorf("hold DaemonSet %s/%s: %w", namespace, daemonSet, err)
	}
	return func(ctx context.Context) error { return patch(ctx, "null") }, nil
}

// Exempt lets a node have the pods that HoldPods holds back everywhere; the returned function ends that.
func (n *Node) Exempt(ctx context.Context) (undo func(context.Context) error, err error) {
	patch := func(ctx context.Context, value string) error {
		body := fmt.Sprintf(`{"metadata":{"labels":{"e2e/held":%s}}}`, value)
		_, err := n.lab.Kube.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	return func(ctx context.Context) error { return patch(ctx, "null") }, patch(ctx, `"true"`)
}

// CutAPI drops the traffic of the node and its pods to the API server; the returned function lets it through again.
func (n *Node) CutAPI(ctx context.Context) (undo func(context.Context) error, err error) {
	rules := `add table inet e2e_cut
add chain inet e2e_cut out { type filter hook output priority -150; }
add rule inet e2e_cut out tcp dport 6443 drop
add chain inet e2e_cut forward { type filter hook forward priority -150; }
add rule inet e2e_cut forward tcp dport 6443 drop
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
