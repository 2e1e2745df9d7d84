package configmap

import (
	"maps"
	"slices"
	"strings"
	"time"

	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Cilium is what is known of one installation. Any part may be missing: then nothing is said about it.
type Cilium struct {
	Namespace   string
	ConfigMaps  []*corev1.ConfigMap // cilium-config and whatever else the sources name
	NodeConfigs []*ciliumv2.CiliumNodeConfig
	Nodes       []Node // nil: not known; then a CiliumNodeConfig stands for the nodes that it selects
	DaemonSet   *appsv1.DaemonSet
	Operator    *appsv1.Deployment
	Agents      []Agent
}

// Node is what decides which CiliumNodeConfigs and overrides count for a node.
type Node struct {
	Name                string
	Labels, Annotations map[string]string
}

// Agent is one of the agent's pods.
type Agent struct {
	Node    string
	Started time.Time // zero: not started yet
}

// Group is a set of nodes whose agents take the same settings.
type Group struct {
	Settings Settings
	// Nodes are sorted. The first group of Groups is the cluster's own and leaves them out.
	Nodes []string
	// Selected says who sets the group apart where the nodes are not known, else "".
	Selected string
	// Empty reports that no node is in it.
	Empty bool
}

// Config returns the ConfigMap that the source names, or nil.
func (c *Cilium) Config(namespace, name string) *corev1.ConfigMap {
	for _, cm := range c.ConfigMaps {
		if cm.Namespace == namespace && cm.Name == name {
			return cm
		}
	}
	return nil
}

// override is a CiliumNodeConfig that says something about a key Holdfast reads.
type override struct {
	config   *ciliumv2.CiliumNodeConfig
	selector labels.Selector // nil: selects nothing
	values   map[string]string
}

// Settings are those that a node without overrides takes.
func (c *Cilium) Settings() Settings {
	sources, _ := ParseSources(c.DaemonSet, c.Namespace) // Check reports the error
	return merge(c.layers(sources, c.overrides(), nil), sources)
}

// Groups resolves the settings of every node (pkg/option/resolver). The first group is what a node without overrides
// takes; it is there even where there is no node.
func (c *Cilium) Groups(sources Sources) []Group {
	overrides := c.overrides()
	groups := []Group{{Settings: merge(c.layers(sources, overrides, nil), sources)}}
	if !perNode(sources, overrides) {
		return groups
	}
	if c.Nodes == nil {
		for _, o := range overrides {
			only := c.layers(sources, []override{{o.config, labels.Everything(), o.values}}, &Node{})
			source := Source{Kind: SourceNodeConfig, Namespace: o.config.Namespace, Name: o.config.Name}
			groups = append(groups, Group{Settings: merge(only, sources), Selected: source.String()})
		}
		return groups
	}
	index, rest := map[string]int{}, 0
	var key strings.Builder
	for i := range c.Nodes {
		node := &c.Nodes[i]
		key.Reset()
		c.groupKey(&key, sources, overrides, node)
		if key.Len() == 0 {
			rest++
			continue
		}
		at, found := index[key.String()]
		if !found {
			at = len(groups)
			index[key.String()] = at
			groups = append(groups, Group{Settings: merge(c.layers(sources, overrides, node), sources)})
		}
		groups[at].Nodes = append(groups[at].Nodes, node.Name)
	}
	for i := range groups {
		slices.Sort(groups[i].Nodes)
	}
	groups[0].Empty = rest == 0 && len(c.Nodes) > 0
	return groups
}

// overrides are the CiliumNodeConfigs with a relevant key, by name: the later wins.
func (c *Cilium) overrides() []override {
	var list []override
	for _, config := range c.NodeConfigs {
		values := relevantOf(config.Spec.Defaults)
		if len(values) == 0 {
			continue
		}
		o := override{config: config, values: values}
		if config.Spec.NodeSelector != nil {
			// A selector that the API server let through but no agent can read selects nothing; invalidSelectors reports it.
			o.selector, _ = metav1.LabelSelectorAsSelector(config.Spec.NodeSelector)
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b override) int { return strings.Compare(a.config.Name, b.config.Name) })
	return list
}

// selects reports whether o counts for the node under the source, which names one CiliumNodeConfig or none.
func (o override) selects(source Source, node *Node) bool {
	if o.config.Namespace != source.Namespace {
		return false
	}
	if source.Name != "" {
		return o.config.Name == source.Name
	}
	return node != nil && o.selector != nil && o.selector.Matches(labels.Set(node.Labels))
}

// layers lists what counts for the node, in order; for no node, what counts for all.
func (c *Cilium) layers(sources Sources, overrides []override, node *Node) []layer {
	var list []layer
	for i, source := range sources.Order {
		switch source.Kind {
		case SourceConfigMap:
			if cm := c.Config(source.Namespace, source.Name); cm != nil {
				list = append(list, layer{source, i == 0, cm.Data})
			}
		case SourceNodeConfig:
			for _, o := range overrides {
				if o.selects(source, node) {
					named := Source{Kind: source.Kind, Namespace: source.Namespace, Name: o.config.Name}
					list = append(list, layer{named, i == 0, o.values})
				}
			}
		case SourceNode:
			if of := c.nodeOf(source, node); of != nil {
				list = append(list, layer{Source{Kind: source.Kind, Name: of.Name}, i == 0, of.overrides()})
			}
		}
	}
	return list
}

// nodeOf is the Node a source means: the one it names, else the agent's own.
func (c *Cilium) nodeOf(source Source, own *Node) *Node {
	if source.Name == "" {
		return own
	}
	for i := range c.Nodes {
		if c.Nodes[i].Name == source.Name {
			return &c.Nodes[i]
		}
	}
	return nil
}

// overrides are the keys that the Node's labels and, over them, its annotations set.
func (n *Node) overrides() map[string]string {
	values := map[string]string{}
	for _, from := range []map[string]string{n.Labels, n.Annotations} {
		for name, text := range from {
			if key, found := configKey(name); found {
				values[key] = text
			}
		}
	}
	return values
}

// perNode reports whether nodes can differ at all, so that most clusters need no look at their nodes.
func perNode(sources Sources, overrides []override) bool {
	return slices.ContainsFunc(sources.Order, func(s Source) bool {
		return s.Kind == SourceNode && s.Name == "" || s.Kind == SourceNodeConfig && s.Name == "" && len(overrides) > 0
	})
}

// groupKey writes what sets the node apart: equal keys mean equal settings.
func (c *Cilium) groupKey(key *strings.Builder, sources Sources, overrides []override, node *Node) {
	for i, source := range sources.Order {
		switch {
		case source.Name != "":
		case source.Kind == SourceNodeConfig:
			for _, o := range overrides {
				if o.selects(source, node) {
					key.WriteString(string(rune('0'+i)) + "c" + o.config.Name + "\x00")
				}
			}
		case source.Kind == SourceNode:
			values := node.overrides()
			for _, name := range slices.Sorted(maps.Keys(values)) {
				key.WriteString(string(rune('0'+i)) + "n" + name + "=" + values[name] + "\x00")
			}
		}
	}
}

func relevantOf(all map[string]string) map[string]string {
	values := map[string]string{}
	for key, text := range all {
		if relevant[key] {
			values[key] = text
		}
	}
	return values
}
