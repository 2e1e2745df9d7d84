package main

import (
	"encoding/json"
	"hash/crc32"
)

type object = map[string]any

// config returns kind's configuration of the cluster. It is JSON, which kind reads as YAML.
func (c *cluster) config() string {
	network := networks[c.Net]
	networking := object{
		"disableDefaultCNI": true,
		"kubeProxyMode":     network.kubeProxy,
		"ipFamily":          "ipv4",
		"apiServerPort":     c.port,
	}
	if c.Dual {
		networking["ipFamily"] = "dual"
	}
	if c.engine.Own != "" {
		networking["apiServerAddress"] = c.engine.Address
		if c.port == 0 {
			// kind looks for a free port on this machine, where the address is not. In the engine's namespace there are
			// only our clusters.
			networking["apiServerPort"] = 6443 + crc32.ChecksumIEEE([]byte(c.Name))%10000
		}
	}
	var nodes []object
	for i := range c.Nodes {
		node := object{"role": "worker"}
		if i == 0 {
			node["role"] = "control-plane"
		}
		if c.Registered {
			node["labels"] = object{"holdfast.dev/node": "false"}
		}
		nodes = append(nodes, node)
	}
	return marshal(object{
		"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "name": c.Name,
		"networking": networking, "nodes": nodes, "kubeadmConfigPatches": c.patches(),
	})
}

// patches returns merge patches of kubeadm's configuration.
func (c *cluster) patches() []string {
	patches := []string{marshal(object{
		"kind": "KubeletConfiguration", "failCgroupV1": false,
		// Who kills processes all day is not to wait five minutes for the next; Kubernetes 1.35 and later (KubeletCrashLoopBackOffMax).
		"crashLoopBackOff": object{"maxContainerRestartPeriod": "10s"},
	})}
	if c.Registered {
		taints := []object{{"key": "holdfast.dev/unchained", "effect": "NoSchedule"}}
		if c.Nodes == 1 {
			// kind takes this taint away from the only node of a cluster, and fails where it is not there.
			taints = append(taints, object{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"})
		}
		registration := object{"nodeRegistration": object{"taints": taints}}
		for _, kind := range []string{"InitConfiguration", "JoinConfiguration"} {
			registration["kind"] = kind
			patches = append(patches, marshal(registration))
		}
	}
	return patches
}

func marshal(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	return string(content)
}
