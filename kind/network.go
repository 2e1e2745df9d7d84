package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/holdfast-cni/holdfast/kind/command"
	"github.com/holdfast-cni/holdfast/kind/parts"
)

//go:embed network
var networkFiles embed.FS

// network says how pods of a cluster get their network: from Cilium with these values, or from a CNI configuration file of
// this name on every node. Neither: there is none at first.
type network struct {
	kubeProxy string // its mode
	values    string
	configMap bool // Cilium reads its list from our ConfigMap
	file      string
}

var networks = map[string]network{
	"cilium":           {kubeProxy: "none", values: "cilium.yaml", configMap: true},
	"cilium-kubeproxy": {kubeProxy: "nftables", values: "cilium-kubeproxy.yaml", configMap: true},
	"cilium-defaults":  {kubeProxy: "nftables", values: "cilium-defaults.yaml"},
	"ptp":              {kubeProxy: "nftables", file: "ptp.conflist"},
	"bridge":           {kubeProxy: "nftables", file: "bridge.conflist"},
	"flannel-conf":     {kubeProxy: "nftables", file: "flannel.conf"},
	"late":             {kubeProxy: "nftables"},
}

func networkNames() []string { return slices.Sorted(maps.Keys(networks)) }

// bringNetwork installs a network and waits until nodes and system pods are Ready.
func (c *cluster) bringNetwork(ctx context.Context, name string) error {
	n := networks[name]
	switch {
	case n.values != "":
		if err := c.installCilium(ctx, n); err != nil {
			return err
		}
	case n.file != "":
		if err := c.writeConfig(ctx, n.file); err != nil {
			return err
		}
	default:
		c.say("no network yet: kind network NET brings one")
		return nil
	}
	switch {
	case n.configMap && c.configMap == "none":
		c.say("Cilium waits for its ConfigMap")
		return nil
	case n.values != "" && c.Registered && c.noTolerations:
		c.say("Cilium's operator does not tolerate our taint, so it waits")
		return nil
	}
	if _, err := c.kubectl(ctx, "wait", "node", "--all", "--for=condition=Ready", "--timeout=300s"); err != nil {
		return err
	}
	c.say("%s: nodes Ready", name)
	if c.Registered {
		return nil // nothing else starts on them until the taint is gone
	}
	if err := c.rolledOut(ctx); err != nil {
		return err
	}
	c.say("system pods Ready, CoreDNS among them")
	return nil
}

// rolledOut waits until every DaemonSet and Deployment of the system runs as it is written. Pods are not waited for one by one: those
// that a change of values replaces go meanwhile.
func (c *cluster) rolledOut(ctx context.Context) error {
	names, err := c.kubectl(ctx, "-n", "kube-system", "get", "daemonset,deployment", "-o", "name")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(names) {
		if _, err := c.kubectl(ctx, "-n", "kube-system", "rollout", "status", name, "--timeout=300s"); err != nil {
			return err
		}
	}
	return nil
}

// installCilium installs Cilium's own chart, out of its module.
func (c *cluster) installCilium(ctx context.Context, n network) error {
	c.say("installing Cilium")
	source, err := parts.Source(ctx, "cilium", "github.com/cilium/cilium")
	if err != nil {
		return err
	}
	if n.configMap && c.configMap != "none" {
		if err := c.applyConfigMap(ctx); err != nil {
			return err
		}
	}
	values, err := networkFiles.ReadFile("network/" + n.values)
	if err != nil {
		return err
	}
	common, err := networkFiles.ReadFile("network/cilium-common.yaml")
	if err != nil {
		return err
	}
	// Both documents are maps without a key in common, so together they are one.
	text := strings.ReplaceAll(string(values), "{}\n", "") + string(common)
	text = strings.ReplaceAll(text, "CONTROL_PLANE", c.Name+"-control-plane")
	args := []string{"upgrade", "--install", "cilium", filepath.Join(source, "install/kubernetes/cilium"),
		"--kube-context", "kind-" + c.Name, "--namespace", "kube-system", "--values", "-",
		"--set", fmt.Sprintf("ipv6.enabled=%t", c.Dual)}
	if c.noTolerations {
		args = append(args, "--set-json", `operator.tolerations=[{"key":"node.kubernetes.io/not-ready","operator":"Exists"}]`)
	}
	for _, value := range c.set {
		args = append(args, "--set", value)
	}
	helm := c.client(ctx, "helm", args...)
	helm.Stdin = strings.NewReader(text)
	return command.Run(helm)
}

func (c *cluster) applyConfigMap(ctx context.Context) error {
	if c.configMap != "" {
		_, err := c.kubectl(ctx, "apply", "-f", c.configMap)
		return err
	}
	content, err := networkFiles.ReadFile("network/holdfast-cni-config.yaml")
	if err != nil {
		return err
	}
	apply := c.client(ctx, "kubectl", "--context", "kind-"+c.Name, "apply", "-f", "-")
	apply.Stdin = bytes.NewReader(content)
	return command.Run(apply)
}

// node is what the simple networks need to know about a node.
type node struct {
	name      string
	subnets   []netip.Prefix // of its pods
	addresses []netip.Addr   // its own
}

func (c *cluster) listNodes(ctx context.Context) ([]node, error) {
	output, err := c.kubectl(ctx, "get", "nodes", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ PodCIDRs []netip.Prefix }
			Status   struct {
				Addresses []struct{ Type, Address string }
			}
		}
	}
	if err := json.Unmarshal([]byte(output), &list); err != nil {
		return nil, fmt.Errorf("kubectl get nodes: %w", err)
	}
	var nodes []node
	for _, item := range list.Items {
		n := node{name: item.Metadata.Name, subnets: item.Spec.PodCIDRs}
		for _, a := range item.Status.Addresses {
			if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == "InternalIP" {
				n.addresses = append(n.addresses, address)
			}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

const ipam = `{{define "ipam"}}{
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{{range $i, $s := .}}{{if $i}}, {{end}}{"dst": "{{if $s.Addr.Is4}}0.0.0.0/0{{else}}::/0{{end}}"}{{end}}],
        "ranges": [{{range $i, $s := .}}{{if $i}}, {{end}}[{"subnet": "{{$s}}"}]{{end}}]
      }{{end}}`

// writeConfig writes the CNI configuration of every node, as the installers of networks do: whole, and named last.
func (c *cluster) writeConfig(ctx context.Context, file string) error {
	content, err := networkFiles.ReadFile("network/" + file)
	if err != nil {
		return err
	}
	form, err := template.New(file).Parse(ipam + string(content))
	if err != nil {
		return err
	}
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		var config bytes.Buffer
		if err := form.Execute(&config, n.subnets); err != nil {
			return err
		}
		if err := c.write(ctx, n.name, "/etc/systemd/system/pod-routes.service", routes(n, nodes)); err != nil {
			return err
		}
		if _, err := c.engine.Docker(ctx, "exec", n.name, "systemctl", "enable", "--now", "--quiet", "pod-routes.service"); err != nil {
			return err
		}
		if err := c.write(ctx, n.name, "/etc/cni/net.d/10-"+file, config.String()); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file of a node: beside its place first, then renamed.
func (c *cluster) write(ctx context.Context, node, path, content string) error {
	cmd := c.engine.Command(ctx, "docker", "exec", "--interactive", node,
		"sh", "-ec", `cat >"$0.part" && mv "$0.part" "$0"`, path)
	cmd.Stdin = strings.NewReader(content)
	return command.Run(cmd)
}

// routes returns a unit that leads pods of other nodes there, also after the node was restarted.
func routes(self node, nodes []node) string {
	var unit strings.Builder
	unit.WriteString("[Unit]\nDescription=Routes to the pods of the other nodes\nBefore=kubelet.service\n\n[Service]\nType=oneshot\n")
	for _, other := range nodes {
		if other.name == self.name {
			continue
		}
		for _, subnet := range other.subnets {
			for _, address := range other.addresses {
				if address.Is4() == subnet.Addr().Is4() {
					fmt.Fprintf(&unit, "ExecStart=/usr/sbin/ip route replace %s via %s\n", subnet, address)
				}
			}
		}
	}
	unit.WriteString("ExecStart=/bin/true\n\n[Install]\nWantedBy=multi-user.target\n")
	return unit.String()
}
