package configmap

import "path"

// Reads reports whether the agent on a node is configured to write the list that it finds in the ConfigMap. It is what
// the configuration says: an agent reads its settings when it starts.
func (c *Cilium) Reads(node Node, configMap string) bool {
	sources, _ := ParseSources(c.DaemonSet, c.Namespace) // Check reports the error
	of := *c
	of.Nodes = []Node{node}
	groups := of.Groups(sources)
	settings := groups[len(groups)-1].Settings // the node's own group, where it has one
	read := settings.Get(KeyReadConf).Text
	if read == "" || settings.Get(KeyWriteConf).Text == "" || c.DaemonSet == nil {
		return false
	}
	volume, found := mountedAt(&c.DaemonSet.Spec.Template.Spec, path.Dir(read))
	return found && volume.Name == configMap
}
