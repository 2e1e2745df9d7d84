package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// states are what is asked of each node when a spec failed.
var states = map[string]string{
	"cni.txt":        `for f in /etc/cni/net.d/* /etc/cni/net.d/*/*; do [ -f "$f" ] && { echo "== $f"; cat "$f"; echo; }; done; ls -laR /etc/cni/net.d /opt/cni/bin`,
	"crictl.txt":     `crictl info; crictl pods; crictl ps --all`,
	"containerd.log": `journalctl --no-pager --unit containerd`,
	"kubelet.log":    `journalctl --no-pager --unit kubelet`,
	"nftables.txt":   `for p in $(crictl pods --quiet); do crictl inspectp "$p" | jq -r '"== " + .status.metadata.namespace + "/" + .status.metadata.name'; nsenter --target "$(crictl inspectp "$p" | jq .info.pid)" --net nft list ruleset; done 2>&1`,
	"network.txt":    `ip address; ip route; ip -6 route`,
	"pods.log":       `for f in /var/log/pods/*/*/*.log; do echo "== $f"; tail -n 300 "$f"; done`,
}

// Collect writes into the folder what a person needs to understand a failure.
func (l *Lab) Collect(ctx context.Context, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make folder %s: %w", folder, err)
	}
	write := func(name, content string, err error) error {
		if err != nil {
			content = err.Error()
		}
		return os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644)
	}
	events, err := l.Kube.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	text := ""
	if err == nil {
		for _, e := range events.Items {
			text += fmt.Sprintf("%s %s %s/%s %s: %s\n", e.LastTimestamp.Format("15:04:05"), e.Type, e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	if err := write("events.txt", text, err); err != nil {
		return err
	}
	if !l.HasEngine() {
		return nil
	}
	for _, kinds := range []string{"nodes,pods,daemonsets,deployments", "configmaps"} {
		out, err := l.run(ctx, l.Tool("kubectl"), "get", kinds, "--all-namespaces", "--output", "yaml")
		if err := write(kinds+".yaml", out, err); err != nil {
			return err
		}
	}
	nodes, err := l.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		for name, script := range states {
			out, err := node.Run(ctx, "sh", "-c", script)
			if err := write(node.Name+"-"+name, out, err); err != nil {
				return err
			}
		}
	}
	return nil
}
