package chaining

// Reason says why a node's chain is not good, as in the condition HoldfastChained. What each one means and how it is
// repaired is written here, once, for the condition, the log and the commands.
type Reason string

// The reasons. Of several the one to repair first is told.
const (
	// Chained: the entry is in the list once, equal and last.
	Chained Reason = ""

	Starting               Reason = "Starting"
	PluginConfigInvalid    Reason = "PluginConfigInvalid"
	BinaryMissing          Reason = "BinaryMissing"
	BinaryDiffers          Reason = "BinaryDiffers"
	NoNetworkList          Reason = "NoNetworkList"
	ListInvalid            Reason = "ListInvalid"
	EntryMissing           Reason = "EntryMissing"
	EntryDiffers           Reason = "EntryDiffers"
	EntryNotLast           Reason = "EntryNotLast"
	EntryDuplicated        Reason = "EntryDuplicated"
	ListShadowed           Reason = "ListShadowed"
	RuntimeNotLoaded       Reason = "RuntimeNotLoaded"
	StrategyRefused        Reason = "StrategyRefused"
	CiliumConfigMapNotUsed Reason = "CiliumConfigMapNotUsed"
)

// Reasons lists every reason there is; Chained is none.
func Reasons() []Reason {
	all := make([]Reason, len(reasons))
	for i, r := range reasons {
		all[i] = r.reason
	}
	return all
}

// Means is what is wrong, in a sentence without its end; empty for Chained.
func (r Reason) Means() string { return r.said().means }

// Fix is what to do about it, in a sentence without its end; empty for Chained.
func (r Reason) Fix() string { return r.said().fix }

type said struct {
	reason     Reason
	means, fix string
}

func (r Reason) said() said {
	for _, s := range reasons {
		if s.reason == r {
			return s
		}
	}
	return said{}
}

var reasons = []said{
	{Starting, "the node was not looked at yet",
		"wait a minute; if it stays, see the log of install-cni on this node"},
	{PluginConfigInvalid, "plugin.json is refused, so there is no entry to chain",
		"correct the key that the message names in the release's values, and run helm upgrade"},
	{BinaryMissing, "the plugin's executable is not where the runtime looks for it",
		"see that install-cni runs on the node and can write the runtime's bin directory; another vendor's plugin is installed by that vendor"},
	{BinaryDiffers, "the plugin's executable is not the release's own",
		"see that install-cni runs on the node, and that nothing else writes this file"},
	{NoNetworkList, "the runtime has no network list to load",
		"install the cluster's network plugin; if it is installed, see the log of its pod on this node"},
	{ListInvalid, "what the runtime would load is not a valid list",
		"correct the file where the message says, or restart the pod that writes it"},
	{EntryMissing, "the list that counts does not have the plugin's entry",
		"see that the node has the label holdfast.dev/node and that install-cni runs on it"},
	{EntryDiffers, "the plugin's entry is not the one that plugin.json holds",
		"where Cilium writes the list (cni.configMap), restart its agent on this node; else keep others from writing the file, and install-cni repairs it"},
	{EntryNotLast, "other plugins run after the plugin's entry",
		"remove the plugins after it, or have their installer run before Holdfast's"},
	{EntryDuplicated, "the plugin's entry is in the list more than once",
		"remove every one but the last, in the list and among its drop-ins"},
	{ListShadowed, "the plugin's entry is in a list that another file hides from the runtime",
		"see that install-cni runs on this node, which follows the file that sorts first; remove that file only if it is a leftover"},
	{RuntimeNotLoaded, "the list on disk is right, but the runtime has loaded another, or does not say what",
		"see that the runtime runs and that chain.criSocket names its socket; if it answers, create and remove a file named .nudge in the CNI configuration directory, or restart it"},
	{StrategyRefused, "no way to chain lasts on this node: Cilium renames every list that is not its own",
		"set cni.configMap in Cilium's chart to the ConfigMap that Holdfast owns (cni.configMap=holdfast-cni-config by default), or run a runtime that reads drop-ins (containerd 2.1, CRI-O 1.33)"},
	{CiliumConfigMapNotUsed, "Cilium's agent does not read Holdfast's ConfigMap",
		"set cni.configMap in Cilium's chart to the ConfigMap that Holdfast owns (cni.configMap=holdfast-cni-config by default), and restart its agents"},
}
