package pass

import (
	"bytes"
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
	RuntimeConfig      runtimeConfig   `json:"runtimeConfig"`
}

// What governs is gathered from everything that stands under a key: encoding/json takes keys of another case for the same, and of two
// the last, and a second one must not undo the first.

type names []string

func (n *names) UnmarshalJSON(data []byte) error {
	var more []string
	err := json.Unmarshal(data, &more)
	*n = append(*n, more...)
	return err
}

type runtimeConfig struct {
	PodAnnotations annotations `json:"io.kubernetes.cri.pod-annotations"`
}

func (c *runtimeConfig) UnmarshalJSON(data []byte) error {
	type plain runtimeConfig // without this method
	more := plain(*c)
	err := json.Unmarshal(data, &more)
	c.PodAnnotations.governed = c.PodAnnotations.governed || more.PodAnnotations.governed
	return err
}

// annotations are the pod's; of them only one is kept.
type annotations struct{ governed bool }

// UnmarshalJSON reads key by key, since a map has of two values the last.
func (a *annotations) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var all map[string]string
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	keys := json.NewDecoder(bytes.NewReader(data))
	if _, err := keys.Token(); err != nil { // {
		return err
	}
	for keys.More() {
		key, err := keys.Token()
		if err != nil {
			return err
		}
		value, err := keys.Token()
		if err != nil {
			return err
		}
		a.governed = a.governed || key == GovernedAnnotation && value == "true"
	}
	return nil
}

// Parse reads a configuration.
func Parse(stdin []byte) (Request, error) {
	var r Request
	err := json.Unmarshal(stdin, &r)
	return r, err
}

// Governs reports whether the pod gets the lock. Annotations reach the plugin through its capability; labels have none. Where namespaces
// are governed, so is a pod of which can't be told in which it is; what names no pod at all is none of Kubernetes'.
func (r Request) Governs(p Pod) bool {
	return slices.Contains(r.GovernedNamespaces, p.Namespace) || len(r.GovernedNamespaces) > 0 && p.Unclear || r.RuntimeConfig.PodAnnotations.governed
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
type Pod struct {
	Namespace, Name, UID string
	// Unclear means that a pod is named, but not one: a key of Kubernetes' stands there twice, or none says the namespace.
	Unclear bool
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// PodOf reads CNI_ARGS: KEY=VALUE pairs between semicolons. Kubernetes runtimes name the pod there.
func PodOf(args string) (p Pod) {
	var seen []string
	named := false
	for pair := range strings.SplitSeq(args, ";") {
		key, value, _ := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if !strings.HasPrefix(key, "K8S_") {
			continue
		}
		p.Unclear = p.Unclear || slices.Contains(seen, key)
		seen = append(seen, key)
		named = named || strings.HasPrefix(key, "K8S_POD_")
		switch key {
		case "K8S_POD_NAMESPACE":
			p.Namespace = value
		case "K8S_POD_NAME":
			p.Name = value
		case "K8S_POD_UID":
			p.UID = value
		}
	}
	// What isn't an RFC 1123 label, no namespace is called.
	notOne := p.Namespace == "" || strings.Trim(p.Namespace, "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	p.Unclear = p.Unclear || named && notOne
	return p
}
