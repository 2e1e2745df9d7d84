package configmap

// Kind says what every finding of one ID means. docs/findings.md is made from Kinds.
type Kind struct {
	ID    ID
	Worst Severity
	// Means is what is wrong and why it matters, in a sentence or two; Behaviour the id it delivers, if any.
	Means, Behaviour string
}

// Kinds lists every ID there is.
var Kinds = []Kind{
	{SocketLBInPods, Error, "Cilium rewrites service addresses inside pods' sockets, so the resolver's address never reaches a pod's rules and the sidecar's DNS fails. Kube-proxy replacement forces socket LB on, whatever bpf-lb-sock says.", "C4"},
	{SettingInvalid, Error, "A setting of Cilium's is not a boolean, and its agents do not start with it.", "C4"},
	{SettingSpelling, Warning, "A boolean is spelled in a way that the agent reads but scripts and templates do not.", "C4"},
	{CiliumMissing, Info, "cilium-config is not there: Cilium is not installed yet, or runs in another namespace.", ""},
	{ConfigMapNotReferenced, Error, "Cilium does not read Holdfast's ConfigMap: cni.configMap is unset or names another one.", "C8"},
	{ConfigMapKeyDiffers, Error, "The key that Cilium reads is not one that the ConfigMap has, or differs from node to node.", "C8"},
	{ConfigMapNamespaceDiffers, Warning, "A ConfigMap of the list's name lies in a namespace where Cilium cannot mount it.", "C8"},
	{ConfigMapForeign, Error, "The ConfigMap was not written by this release. It is compared and left alone; a warning where its list is right.", "C2"},
	{ConfigMapUnwritable, Error, "The API server refuses the write: a namespace, a right, or an immutable ConfigMap.", "C1"},
	{ConfigMapContested, Error, "Somebody overwrites the list again and again; it is repaired once a minute.", "C1"},
	{ListInvalid, Error, "What should be a list is none, or one without Cilium in it.", "C2"},
	{ListNameDiffers, Error, "A list without a chaining mode is not named cilium.", "C8"},
	{ListOrderDiffers, Error, "A list without a chaining mode does not start with cilium-cni.", "C8"},
	{ListDiffers, Info, "An existing list given to render is not the one that was printed.", "C2"},
	{CustomConf, Warning, "cni.customConf=true switches off more than it says.", "C8"},
	{ExclusiveFalse, Warning, "Without cni.exclusive a changed list reaches a node only when its agent restarts.", "C8"},
	{WriteConfEmpty, Error, "write-cni-conf-when-ready is empty: Cilium manages no CNI configuration at all.", "C8"},
	{UninstallOnStop, Warning, "cni.uninstall=true takes a node's list away whenever its agent stops.", "C8"},
	{ChainingModeUnknown, Error, "Cilium does not know the chaining mode that is set.", "C3"},
	{ChainingListMissing, Error, "The chaining mode builds on a list that only the node knows: it must be given.", "C3"},
	{ChainingModeDiffers, Error, "The chaining mode differs from node to node, and one ConfigMap has one list.", "C3"},
	{NodeConfigIgnored, Info, "A CiliumNodeConfig looks as if it counted, but Cilium's configuration sources or override lists ignore it.", "C4"},
	{NodeConfigInvalid, Error, "A CiliumNodeConfig's selector cannot be read, and no agent starts.", "C4"},
	{SourceInvalid, Error, "daemon.configSources names a source that no agent understands; an info where it names one that is not there.", "C4"},
	{SourceUnreadable, Warning, "The watcher cannot read an object. What depends on it is unverified, and nothing is written that it decides.", ""},
	{OperatorIntolerant, Error, "Cilium's operator does not tolerate the taint of a closed node: where every node is closed, nothing ever starts.", "C8"},
	{KubeAPIAddressMissing, Error, "Kube-proxy replacement is on, and Holdfast's pods have no address of the API server that works before Cilium does.", "C8"},
	{AgentOutdated, Warning, "Agents started before their configuration last changed: what it says is intent there, not state.", "C8"},
	{PluginInvalid, Error, "plugin.json is refused; the last good list stays.", ""},
	{PluginMissing, Error, "plugin.json is not there.", ""},
	{FastSyncUnbound, Info, "The policy that bounds the fast sync is not in force, so a changed list waits for the kubelet's own sync.", "C6"},
	{InputInvalid, Error, "A file given to render is not what it should be.", "U1"},
}
