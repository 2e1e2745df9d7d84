package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// GovernedAnnotation on a pod, with value "true", governs it outside the governed namespaces.
const GovernedAnnotation = "holdfast.dev/governed"

// Versions are those of the CNI specification that the plugin speaks.
func Versions() []string { return []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} }

// Funcs are the plugin's verbs.
//
// The lock is not built yet, so ADD refuses every governed pod: one that ran without it would be open. DEL and GC always
// succeed, because a pod that cannot be removed helps nobody; STATUS never speaks against pods that are not governed.
func Funcs() skel.CNIFuncs {
	succeed := func(*skel.CmdArgs) error { return nil }
	return skel.CNIFuncs{
		Add: func(args *skel.CmdArgs) error { return add(args, os.Stdout) },
		Del: succeed, Check: succeed, GC: succeed, Status: succeed,
	}
}

// request is what ADD reads of its configuration. Unknown keys are of no concern to a pod that is not governed.
type request struct {
	GovernedNamespaces []string        `json:"governedNamespaces"`
	PrevResult         json.RawMessage `json:"prevResult"`
	RuntimeConfig      struct {
		PodAnnotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
	} `json:"runtimeConfig"`
}

// add passes an ungoverned pod's result on as it came, and refuses a governed pod.
func add(args *skel.CmdArgs, out io.Writer) error {
	var r request
	if err := json.Unmarshal(args.StdinData, &r); err != nil {
		return types.NewError(types.ErrDecodingFailure, "holdfast-cni: the configuration cannot be read",
			err.Error()+"; correct plugin.json in Holdfast's ConfigMap")
	}
	namespace, pod := podOf(args.Args)
	if r.governs(namespace) {
		return types.NewError(types.ErrTryAgainLater, fmt.Sprintf("holdfast-cni: pod %s/%s is governed, and this version has no lock to put on it", namespace, pod),
			"run it in a namespace that is not governed, or install a version with the lock")
	}
	if len(r.PrevResult) == 0 || string(r.PrevResult) == "null" {
		return types.NewError(types.ErrInvalidNetworkConfig, "holdfast-cni: there is no prevResult",
			"it must be chained behind the cluster's network plugin, not run alone")
	}
	if _, err := out.Write(append(r.PrevResult, '\n')); err != nil {
		return types.NewError(types.ErrIOFailure, "holdfast-cni: the result cannot be written", err.Error())
	}
	return nil
}

// governs reports whether the pod gets the lock. Annotations reach the plugin through its capability; labels have none.
func (r *request) governs(namespace string) bool {
	return slices.Contains(r.GovernedNamespaces, namespace) || r.RuntimeConfig.PodAnnotations[GovernedAnnotation] == "true"
}

// podOf reads CNI_ARGS: KEY=VALUE pairs between semicolons. Kubernetes runtimes set the pod's namespace and name there.
func podOf(args string) (namespace, name string) {
	for pair := range strings.SplitSeq(args, ";") {
		key, value, _ := strings.Cut(pair, "=")
		switch key {
		case "K8S_POD_NAMESPACE":
			namespace = value
		case "K8S_POD_NAME":
			name = value
		}
	}
	return namespace, name
}
