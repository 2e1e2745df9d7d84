// Package configmap is Cilium's configuration as values: what cilium-config, every CiliumNodeConfig and the agent's own
// flags come to on each node, what is wrong with it for a chained plugin, and the CNI list that Cilium reads through
// cni.configMap. Values in, values out: it knows nothing of clients and files.
//
// Facts about Cilium are those of v1.20.2; each names the file it was read in.
package configmap
