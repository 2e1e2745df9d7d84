package plugin

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/version"
)

// GovernedAnnotation on a pod, with value "true", governs it outside the governed namespaces.
const GovernedAnnotation = "holdfast.dev/governed"

// Versions are those of the CNI specification that the plugin speaks.
func Versions() []string { return []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} }

// request is what is read of the configuration for every pod. Unknown keys, and the values of others, are of no concern to a pod
// that is not governed.
type request struct {
	CNIVersion         string          `json:"cniVersion"`
	GovernedNamespaces []string        `json:"governedNamespaces"`
	PrevResult         json.RawMessage `json:"prevResult"`
	RuntimeConfig      struct {
		PodAnnotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
	} `json:"runtimeConfig"`
}

func parseRequest(stdin []byte) (request, error) {
	var r request
	if err := json.Unmarshal(stdin, &r); err != nil {
		return request{}, errUnreadable(err)
	}
	return r, nil
}

// governs reports whether the pod gets the lock. Annotations reach the plugin through its capability; labels have none.
func (r request) governs(p pod) bool {
	return slices.Contains(r.GovernedNamespaces, p.namespace) || r.RuntimeConfig.PodAnnotations[GovernedAnnotation] == "true"
}

// result is what ADD prints: the prevResult, byte for byte where it is of the version that the configuration asks for, as it is from
// libcni, and else converted (CNI specification, section "ADD": the plugin answers in the configuration's version).
func (r request) result() ([]byte, error) {
	if len(r.PrevResult) == 0 || string(r.PrevResult) == "null" {
		return nil, errNoPrevResult()
	}
	var of struct {
		CNIVersion string `json:"cniVersion"`
	}
	if err := json.Unmarshal(r.PrevResult, &of); err != nil {
		return nil, errPrevResult(err)
	}
	if of.CNIVersion == "" || of.CNIVersion == r.CNIVersion {
		return append(slices.Clip(r.PrevResult), '\n'), nil
	}
	previous, err := version.NewResult(of.CNIVersion, r.PrevResult)
	if err != nil {
		return nil, errPrevResult(err)
	}
	converted, err := previous.GetAsVersion(r.CNIVersion)
	if err != nil {
		return nil, errPrevResult(err)
	}
	text, err := json.Marshal(converted)
	if err != nil {
		return nil, errPrevResult(err)
	}
	return append(text, '\n'), nil
}

// pod is whose network it is.
type pod struct{ namespace, name, uid string }

func (p pod) String() string { return p.namespace + "/" + p.name }

// podOf reads CNI_ARGS: KEY=VALUE pairs between semicolons. Kubernetes runtimes name the pod there.
func podOf(args string) (p pod) {
	for pair := range strings.SplitSeq(args, ";") {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "K8S_POD_NAMESPACE":
			p.namespace = value
		case "K8S_POD_NAME":
			p.name = value
		case "K8S_POD_UID":
			p.uid = value
		}
	}
	return p
}
