package configmap

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Value is one setting as an agent sees it: its text, white space trimmed as the agent does (pkg/option: ReadDirConfig),
// and the source it came from. The zero Value is a setting that no source gives.
type Value struct {
	Text   string
	Source Source
	Given  bool
}

// On reads the value as the agent reads a boolean: strconv.ParseBool, false where not given. The words that
// kube-proxy-replacement took before Cilium 1.14 are read as they were meant; Valid tells them apart.
func (v Value) On() bool {
	if on, err := strconv.ParseBool(v.Text); err == nil {
		return on
	}
	return v.Text == "strict" || v.Text == "partial" || v.Text == "probe"
}

// Valid reports whether the agent accepts the value as a boolean. It does not start on one that it refuses.
func (v Value) Valid() bool {
	_, err := strconv.ParseBool(v.Text)
	return !v.Given || err == nil
}

func isBoolKey(key string) bool { return slices.Contains(boolKeys, key) }

// Settings are what one node's agent takes from all its sources together.
type Settings struct{ values map[string]Value }

// Get returns the value of one of the keys above.
func (s Settings) Get(key string) Value { return s.values[key] }

// SocketLBInPods reports whether service addresses are rewritten inside pods' own sockets: kube-proxy replacement forces
// socket LB on whatever bpf-lb-sock says (pkg/kpr/kpr.go), and only hostns-only keeps it out of pods.
func (s Settings) SocketLBInPods() bool {
	on := s.Get(KeyKubeProxyReplacement).On() || s.Get(KeySocketLB).On()
	return on && !s.Get(KeySocketLBHostOnly).On()
}

// ListKey is the ConfigMap's key that the agent reads: the last element of read-cni-conf, or the chart's default.
func (s Settings) ListKey() string {
	if key := path.Base(s.Get(KeyReadConf).Text); len(validation.IsConfigMapKey(key)) == 0 {
		return key
	}
	return DefaultKey // nothing is read, or what can be no key, which reading reports
}

// ChainingMode is the mode in effect: aws-cni and a chaining target imply one (daemon/cmd/cni/config/config.go).
func (s Settings) ChainingMode() string {
	mode := strings.ToLower(s.Get(KeyChainingMode).Text)
	switch {
	case mode != "":
		return mode
	case s.ChainingTarget() != "":
		return "generic-veth"
	default:
		return defaultMode
	}
}

// ChainingTarget is the network that Cilium chains itself into, or "".
func (s Settings) ChainingTarget() string {
	target := s.Get(KeyChainingTarget).Text
	if target == "" && s.Get(KeyChainingMode).Text == "aws-cni" {
		return "aws-cni"
	}
	return target
}

// LogFile is where cilium-cni writes its log; "" turns the file off.
func (s Settings) LogFile() string {
	if v := s.Get(KeyLogFile); v.Given {
		return v.Text
	}
	return defaultLogFile
}

// layer is what one source gives. Allow and deny lists bind every source but the first in the order, found or not.
type layer struct {
	source Source
	first  bool
	values map[string]string
}

// merge lays each layer over those before it, and the agent's own flags over all.
func merge(layers []layer, sources Sources) Settings {
	values := map[string]Value{}
	for _, l := range layers {
		for key, text := range l.values {
			if relevant[key] && (l.first || sources.overridable(key)) {
				values[key] = Value{Text: strings.TrimSpace(text), Source: l.source, Given: true}
			}
		}
	}
	for key, text := range sources.Flags {
		values[key] = Value{Text: text, Source: sources.Agent, Given: true}
	}
	return Settings{values}
}

// overridable reports whether a source after the first may set the key.
func (s Sources) overridable(key string) bool {
	if len(s.Allow) > 0 {
		return slices.Contains(s.Allow, key)
	}
	return !slices.Contains(s.Deny, key)
}
