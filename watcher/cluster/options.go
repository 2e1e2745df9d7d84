package cluster

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
)

// Options say whose ConfigMap is watched and how.
type Options struct {
	// Namespace and Release are Holdfast's own.
	Namespace, Release string
	// CiliumNamespace is where Cilium runs.
	CiliumNamespace string
	// ConfigMap is the name of the list's ConfigMap, in Cilium's namespace.
	ConfigMap string
	// Adopt consents to the take-over of a ConfigMap that Holdfast did not write.
	Adopt bool
	// FastSync asks kubelets to sync a changed list at once, where the policy that bounds it is installed.
	FastSync bool
	// APIAddress reports whether our pods were given an address of the API server that needs no Service.
	APIAddress bool
	// CheckPlugin refuses a plugin.json, naming the key and the fix; the namespaces in reserved are never governed.
	CheckPlugin func(data []byte, reserved ...string) error
	// MetricsAddress and HealthAddress are host:port to listen on; "0" or "" for none.
	MetricsAddress, HealthAddress string
	// Rival bounds repairs against a manager that keeps writing; its zero value means DefaultRival.
	Rival Rival
	// Identity tells two watchers apart in a leader election; "" for the host's name.
	Identity string
}

// Rival is when repair backs off: after Overwrites by one manager within Window, one repair per Backoff.
type Rival struct {
	Overwrites      int
	Window, Backoff time.Duration
}

// DefaultRival leaves a person's edits alone and a controller that fights back little to do.
var DefaultRival = Rival{Overwrites: 5, Window: time.Minute, Backoff: time.Minute}

// Validate reports the first option that cannot be, with its flag.
func (o *Options) Validate() error {
	for flag, value := range map[string]string{"namespace": o.Namespace, "cilium-namespace": o.CiliumNamespace} {
		if faults := validation.IsDNS1123Label(value); len(faults) > 0 {
			return fmt.Errorf("--%s %q: %s", flag, value, faults[0])
		}
	}
	for flag, value := range map[string]string{"release": o.Release, "cilium-configmap": o.ConfigMap} {
		if faults := validation.IsDNS1123Subdomain(value); len(faults) > 0 {
			return fmt.Errorf("--%s %q: %s", flag, value, faults[0])
		}
	}
	if len(o.Release) > watcher.MaxReleaseName {
		return fmt.Errorf("--release %q: has %d characters, at most %d fit; choose a shorter name", o.Release, len(o.Release), watcher.MaxReleaseName)
	}
	if o.ConfigMap == configmap.DefaultConfigName {
		return fmt.Errorf("--cilium-configmap %q: is Cilium's own configuration; choose another name", o.ConfigMap)
	}
	if o.Rival == (Rival{}) {
		o.Rival = DefaultRival
	}
	return nil
}

// release names this release in marks and messages.
func (o *Options) release() string { return o.Namespace + "/" + o.Release }

// reserved are the namespaces that are never governed.
func (o *Options) reserved() []string { return []string{"kube-system", o.CiliumNamespace, o.Namespace} }
