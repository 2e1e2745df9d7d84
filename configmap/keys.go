package configmap

import "strings"

// Keys of cilium-config that decide what a chained plugin meets (pkg/option/config.go and daemon/cmd/cni/config).
const (
	KeyKubeProxyReplacement = "kube-proxy-replacement"
	KeySocketLB             = "bpf-lb-sock"
	KeySocketLBHostOnly     = "bpf-lb-sock-hostns-only"
	KeyReadConf             = "read-cni-conf"
	KeyWriteConf            = "write-cni-conf-when-ready"
	KeyExclusive            = "cni-exclusive"
	KeyChainingMode         = "cni-chaining-mode"
	KeyChainingTarget       = "cni-chaining-target"
	KeyLogFile              = "cni-log-file"
	KeyUninstall            = "cni-uninstall"
	KeyCustomConf           = "custom-cni-conf"
	KeyDebug                = "debug"
)

// Relevant are the keys above: all that Holdfast reads of Cilium's configuration.
var relevant = map[string]bool{
	KeyKubeProxyReplacement: true, KeySocketLB: true, KeySocketLBHostOnly: true, KeyReadConf: true, KeyWriteConf: true,
	KeyExclusive: true, KeyChainingMode: true, KeyChainingTarget: true, KeyLogFile: true, KeyUninstall: true,
	KeyCustomConf: true, KeyDebug: true,
}

// boolKeys are those that the agent reads as booleans. It refuses to start on any other value
// (validateConfigMapFlag in pkg/option/config.go).
var boolKeys = []string{
	KeyKubeProxyReplacement, KeySocketLB, KeySocketLBHostOnly, KeyExclusive, KeyDebug,
}

// helmValues names the value of Cilium's chart that sets each key (templates/cilium-configmap.yaml).
var helmValues = map[string]string{
	KeyKubeProxyReplacement: "kubeProxyReplacement",
	KeySocketLB:             "socketLB.enabled",
	KeySocketLBHostOnly:     "socketLB.hostNamespaceOnly",
	KeyExclusive:            "cni.exclusive",
	KeyChainingMode:         "cni.chainingMode",
	KeyLogFile:              "cni.logFile",
	KeyUninstall:            "cni.uninstall",
	KeyCustomConf:           "cni.customConf",
	KeyDebug:                "debug.enabled",
}

// Defaults of Cilium and its chart.
const (
	DefaultConfigName = "cilium-config"
	DefaultKey        = "cni-config" // cni.configMapKey in values.yaml
	defaultLogFile    = "/var/run/cilium/cilium-cni.log"
	defaultMode       = "none"
	ciliumName        = "cilium"
	ciliumType        = "cilium-cni"
	ciliumDaemonSet   = "cilium"
)

// AgentLabel selects the agent's pods (templates/cilium-agent/daemonset.yaml).
const AgentLabel, AgentLabelValue = "k8s-app", "cilium"

// configAnnotation is the prefix of Node labels and annotations that set a key for that node, where the agent's sources
// include its Node (pkg/annotation: ConfigPrefix).
const configAnnotation = "config.cilium.io/"

func configKey(name string) (string, bool) {
	key, found := strings.CutPrefix(name, configAnnotation)
	return key, found && relevant[key]
}
