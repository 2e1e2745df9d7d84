package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfDir is where the runtime of a kind node reads its CNI configuration, BinDir where it looks for plugins.
const (
	ConfDir = "/etc/cni/net.d"
	BinDir  = "/opt/cni/bin"
)

// Node is a node of a kind cluster, reached through the engine.
type Node struct {
	Name string
	lab  *Lab
}

// Nodes lists the cluster's nodes, the control plane first.
func (l *Lab) Nodes(ctx context.Context) ([]*Node, error) {
	list, err := l.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var nodes []*Node
	for i := range list.Items {
		node := &Node{Name: list.Items[i].Name, lab: l}
		if strings.HasSuffix(node.Name, "-control-plane") {
			nodes = append([]*Node{node}, nodes...)
		} else {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// Memory is what each node's processes use, as the engine counts it.
func (l *Lab) Memory(ctx context.Context) (string, error) {
	out, err := l.run(ctx, "docker", "stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}")
	if err != nil {
		return "", err
	}
	return strings.Join(strings.Split(strings.TrimSpace(out), "\n"), ", "), nil
}

// Run runs a command on the node and returns its standard output.
func (n *Node) Run(ctx context.Context, command ...string) (string, error) {
	return n.lab.run(ctx, "docker", append([]string{"exec", n.Name}, command...)...)
}

// Shell runs a script on the node.
func (n *Node) Shell(ctx context.Context, script string) (string, error) {
	return n.Run(ctx, "sh", "-ec", script)
}

// Read is the content of a file of the node.
func (n *Node) Read(ctx context.Context, file string) (string, error) { return n.Run(ctx, "cat", file) }

// Write puts a file onto the node as a careful writer does: under a name that no runtime reads, then renamed.
func (n *Node) Write(ctx context.Context, file string, content []byte, mode os.FileMode) error {
	script := fmt.Sprintf(`cat > "$1.tmp" && chmod %o "$1.tmp" && sync "$1.tmp" && mv "$1.tmp" "$1"`, mode)
	_, err := n.lab.feed(ctx, bytes.NewReader(content), "docker", "exec", "-i", n.Name, "sh", "-ec", script, "sh", file)
	return err
}

// Overwrite writes a file in place, as a careless vendor does.
func (n *Node) Overwrite(ctx context.Context, file string, content []byte) error {
	_, err := n.lab.feed(ctx, bytes.NewReader(content), "docker", "exec", "-i", n.Name, "sh", "-ec", `cat > "$1"`, "sh", file)
	return err
}

// Loaded is what the runtime says it has loaded (CRI Status, verbose): the plugins of the first network, each as JSON.
func (n *Node) Loaded(ctx context.Context) (plugins []string, status string, err error) {
	out, err := n.Run(ctx, "crictl", "info")
	if err != nil {
		return nil, "", err
	}
	var info struct {
		CNIConfig struct {
			Networks []struct {
				IFName string
				Config struct {
					Name    string
					Plugins []struct{ Source string }
				}
			}
		} `json:"cniconfig"`
		LastCNILoadStatus string `json:"lastCNILoadStatus"`
	}
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		return nil, "", fmt.Errorf("read what crictl info printed on %s: %w", n.Name, err)
	}
	for _, network := range info.CNIConfig.Networks {
		if network.IFName != "eth0" {
			continue // the loopback
		}
		for _, plugin := range network.Config.Plugins {
			plugins = append(plugins, plugin.Source)
		}
	}
	return plugins, info.LastCNILoadStatus, nil
}
