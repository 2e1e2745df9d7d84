package agent

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-cni/holdfast/agent/contract"
	"github.com/holdfast-cni/holdfast/watcher"
)

// Options say which node's pods are kept, and how.
type Options struct {
	// Node is the Node's name, Namespace and Release are Holdfast's own.
	Node, Namespace, Release string
	// Version is the agent's release, as stamps and records name it.
	Version string
	// CiliumNamespace is never governed; empty where the network isn't Cilium's.
	CiliumNamespace string
	// HostRoot is where this process sees the node's root, or parts of it, for the runtime's socket alone.
	HostRoot string
	// CRISocket is the runtime's, as the node sees it; empty: a known one.
	CRISocket string
	// Socket is where the plugin asks, and States the folder where it keeps what it did, the same as the plugin's.
	Socket, States string
	// Memory is a folder that outlives the node's boots.
	Memory string
	// Existing says what becomes of pods that were there before their namespace was governed, ExistingLimit of how many of them on
	// this node, before a person has to look.
	Existing      Existing
	ExistingLimit int
	// Read makes of plugin.json what the agent goes by. The namespaces in reserved are never governed.
	Read func(data []byte, reserved ...string) (Governing, error)
	// MetricsAddress and HealthAddress are host:port to listen on; "0" or "" for none.
	MetricsAddress, HealthAddress string
}

// Governing is what plugin.json says of pods.
type Governing struct {
	// Namespaces are those whose pods are all governed.
	Namespaces []string
	Policy     contract.Policy
}

// Existing is what becomes of pods that were there before their namespace was governed.
type Existing string

// Report reports and marks for eviction; Cut also cuts off at once.
const (
	Report Existing = "report"
	Cut    Existing = "cut"
)

// Validate reports the first option that can't be, with its flag.
func (o *Options) Validate() error {
	if faults := validation.IsDNS1123Subdomain(o.Node); len(faults) > 0 {
		return fmt.Errorf("--node %q: %s; NODE_NAME sets it as well", o.Node, faults[0])
	}
	if faults := validation.IsDNS1123Label(o.Namespace); len(faults) > 0 {
		return fmt.Errorf("--namespace %q: %s", o.Namespace, faults[0])
	}
	if faults := validation.IsDNS1123Subdomain(o.Release); len(faults) > 0 || len(o.Release) > watcher.MaxReleaseName {
		return fmt.Errorf("--release %q: not the name of a release of at most %d characters", o.Release, watcher.MaxReleaseName)
	}
	if o.Existing != Report && o.Existing != Cut {
		return fmt.Errorf("--existing-pods %q: write %s or %s", o.Existing, Report, Cut)
	}
	if o.ExistingLimit < 0 {
		return fmt.Errorf("--existing-pods-limit %d: write 0 or more", o.ExistingLimit)
	}
	for _, path := range []struct{ flag, value string }{
		{"host-root", o.HostRoot}, {"cri-socket", o.CRISocket}, {"socket", o.Socket}, {"states", o.States}, {"memory", o.Memory},
	} {
		if !filepath.IsAbs(path.value) && (path.value != "" || path.flag != "cri-socket") {
			return fmt.Errorf("--%s %q: give an absolute path", path.flag, path.value)
		}
	}
	return nil
}

// reserved are the namespaces that are never governed, whatever plugin.json or a pod says.
func (o *Options) reserved() []string {
	reserved := []string{"kube-system", o.Namespace}
	if o.CiliumNamespace != "" {
		reserved = append(reserved, o.CiliumNamespace)
	}
	return reserved
}

// stampRelease is a version as a stamp can say it (lock.Stamp.Release).
func stampRelease(version string) string {
	kept := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("._+-", r)) {
			return r
		}
		return -1
	}, version)
	if kept == "" {
		return "unknown"
	}
	return kept[:min(len(kept), 63)]
}
