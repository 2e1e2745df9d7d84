package install

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/watcher"
)

// Options say which node is kept, and how.
type Options struct {
	// Node is the Node's name, Namespace and Release are Holdfast's own.
	Node, Namespace, Release string
	// Cilium: the network may be Cilium's, and its settings in CiliumNamespace say whether it reads ConfigMap.
	Cilium                     bool
	CiliumNamespace, ConfigMap string
	// HostRoot is where this process sees the node's root, or parts of it.
	HostRoot string
	// Socket, ConfDir and BinDir are as the node sees them; empty: asked of its files and of the runtime.
	Socket, ConfDir, BinDir string
	// Binary is the executable that is installed under the plugin's type; empty: somebody else puts it on the node.
	Binary string
	// Strategy is the only one allowed; empty: choose.
	Strategy chaining.Strategy
	// CheckPlugin refuses a plugin.json, naming the key and the fix; the namespaces in reserved are never governed.
	CheckPlugin func(data []byte, reserved ...string) error
	// MetricsAddress and HealthAddress are host:port to listen on; "0" or "" for none.
	MetricsAddress, HealthAddress string
}

// Validate reports the first option that cannot be, with its flag.
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
	if o.Strategy != "" && !o.Strategy.Valid() {
		return fmt.Errorf("--strategy %q: write %s, %s or %s, or leave it out", o.Strategy, chaining.ByCilium, chaining.ByDropin, chaining.ByList)
	}
	for flag, path := range map[string]string{"host-root": o.HostRoot, "cri-socket": o.Socket, "conf-dir": o.ConfDir, "bin-dir": o.BinDir, "binary": o.Binary} {
		if path != "" && !filepath.IsAbs(path) {
			return fmt.Errorf("--%s %q: give an absolute path", flag, path)
		}
	}
	if o.Binary != "" {
		if info, err := os.Stat(o.Binary); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("--binary %s: no executable file; leave it out where somebody else installs the plugin", o.Binary)
		}
	}
	if info, err := os.Stat(o.HostRoot); err != nil || !info.IsDir() {
		return fmt.Errorf("--host-root %s: no directory; mount the node's root there", o.HostRoot)
	}
	return nil
}

// reserved are the namespaces that are never governed.
func (o *Options) reserved() []string {
	reserved := []string{"kube-system", o.Namespace}
	if o.Cilium {
		reserved = append(reserved, o.CiliumNamespace)
	}
	return reserved
}
