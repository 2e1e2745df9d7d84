package pass

import (
	"encoding/json"
	"slices"
	"strings"
)

// GovernedAnnotation on a pod, with value "true", governs it outside the governed namespaces.
const GovernedAnnotation = "holdfast.dev/governed"

// Versions are those of the CNI specification that the plugin speaks.
func Versions() []string { return []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} }

// Request is what is read of the configuration for every pod. Unknown keys, and the values of others, are of no concern to a pod
// that is not governed.
type Request struct {
	CNIVersion         string          `json:"cniVersion"`
	Name               string          `json:"name"`
	GovernedNamespaces names           `json:"governedNamespaces"`
	PrevResult         json.RawMessage `json:"prevResult"`
	RuntimeConfig      struct {
		PodAnnotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
	} `json:"runtimeConfig"`
}

// names gathers what stands under a key: encoding/json takes keys of another case for the same, and of two the last, and a second list
// must not undo the first.
type names []string

func (n *names) UnmarshalJSON(data []byte) error {
	var more []string
	err := json.Unmarshal(data, &more)
	*n = append(*n, more...)
	return err
}

// Parse reads a configuration.
func Parse(stdin []byte) (Request, error) {
	var r Request
	err := json.Unmarshal(stdin, &r)
	return r, err
}

// Governs reports whether the pod gets the lock. Annotations reach the plugin through its capability; labels have none.
func (r Request) Governs(p Pod) bool {
	return slices.Contains(r.GovernedNamespaces, p.Namespace) || r.RuntimeConfig.PodAnnotations[GovernedAnnotation] == "true"
}

// HasResult reports whether there is a prevResult.
func (r Request) HasResult() bool { return len(r.PrevResult) > 0 && string(r.PrevResult) != "null" }

// ResultVersion is the prevResult's own; empty where it says none.
func (r Request) ResultVersion() (string, error) {
	var of struct {
		CNIVersion string `json:"cniVersion"`
	}
	err := json.Unmarshal(r.PrevResult, &of)
	return of.CNIVersion, err
}

// Same is the prevResult, byte for byte, as what ADD prints.
func (r Request) Same() []byte { return append(slices.Clip(r.PrevResult), '\n') }

// Pod is whose network it is.
type Pod struct{ Namespace, Name, UID string }

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// PodOf reads CNI_ARGS: KEY=VALUE pairs between semicolons. Kubernetes runtimes name the pod there.
func PodOf(args string) (p Pod) {
	for pair := range strings.SplitSeq(args, ";") {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "K8S_POD_NAMESPACE":
			p.Namespace = value
		case "K8S_POD_NAME":
			p.Name = value
		case "K8S_POD_UID":
			p.UID = value
		}
	}
	return p
}
