// Package watcher holds the names that everything which watches and acts agrees on. Its packages do the work: cluster
// owns Cilium's ConfigMap, node keeps and proves the chain on one node.
package watcher

// Names that a cluster carries.
const (
	// NodeLabel registers a node: "true" is open, "false" closed. Only install-cni sets the value.
	NodeLabel = "holdfast.dev/node"
	// InstalledLabel is on a node until install-cni has taken everything out.
	InstalledLabel = "holdfast.dev/installed"
	// Taint is on a node, with effect NoSchedule, while its chain is not confirmed.
	Taint = "holdfast.dev/unchained"
	// SyncAnnotation, on one of Cilium's pods, holds the digest of the list its kubelet was asked to sync.
	SyncAnnotation = "holdfast.dev/sync"
	// GovernedAnnotation on a pod, with value "true", governs it outside the governed namespaces.
	GovernedAnnotation = "holdfast.dev/governed"
	// CutAnnotation on a governed pod asks its node's agent to cut it off for good. Its value is the reason.
	CutAnnotation = "holdfast.dev/cut"
	// CutOffAnnotation, ProofAnnotation and EvictAnnotation are the agent's own: that a pod was cut off and why, what was proved of
	// it, and why it is to be evicted.
	CutOffAnnotation = "holdfast.dev/cut-off"
	ProofAnnotation  = "holdfast.dev/proof"
	EvictAnnotation  = "holdfast.dev/evict"
	// ChainedCondition is the type of the Node's condition that says whether its chain is confirmed.
	ChainedCondition = "HoldfastChained"
	// FieldManager owns what Holdfast applies.
	FieldManager = "holdfast-watcher"
	// MaxReleaseName is the longest name of a Helm release, in characters, that leaves room for the names made from it.
	MaxReleaseName = 32
)

// Keys of the ConfigMap <release>-holdfast.
const (
	PluginKey = "plugin.json"
	// StateKey is the chart's own, and StateInstalled its only value. To leave, the key is taken away and LeavingKey is set;
	// the next helm upgrade puts it back. A value "leaving" would not do: helm upgrade would be refused over who owns it.
	StateKey       = "state"
	StateInstalled = "installed"
	LeavingKey     = "leaving"
)

// Leaving reports whether the data of that ConfigMap say that Holdfast is on its way out.
func Leaving(data map[string]string) bool {
	return data[LeavingKey] != "" && data[StateKey] != StateInstalled
}

// ConfigName is the name of a release's own ConfigMap, which the chart makes.
func ConfigName(release string) string { return release + "-holdfast" }

// StatusName is the name of the ConfigMap in which the cluster watcher reports and remembers.
func StatusName(release string) string { return release + "-holdfast-status" }
