package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/configmap"
)

// sameKind bounds how many findings of one kind are told, and nodesStored how many of a finding's nodes the status ConfigMap names.
const (
	sameKind    = 20
	nodesStored = 20
)

// bounded keeps the first findings of each kind and counts the others: a hundred CiliumNodeConfigs may be wrong at once, and
// the status ConfigMap, without which Holdfast neither remembers nor leaves, holds 1 MiB.
func bounded(findings []configmap.Finding) []configmap.Finding {
	var kept []configmap.Finding
	count := map[configmap.ID]int{}
	more := map[configmap.ID]configmap.Finding{}
	for _, f := range findings {
		if count[f.ID]++; count[f.ID] <= sameKind {
			kept = append(kept, f)
			continue
		}
		more[f.ID] = configmap.Finding{ID: f.ID, Severity: f.Severity, Object: fmt.Sprintf("%d others", count[f.ID]-sameKind),
			Message: "are like those that are named, and are named once those are repaired",
			Fix:     configmap.Fix{Command: "repair those that are named; holdfast render, given the same objects, names all"}}
	}
	for _, f := range more {
		kept = append(kept, f)
	}
	configmap.Sort(kept)
	return kept
}

// stored is what the status ConfigMap says of the findings.
func stored(findings []configmap.Finding) []configmap.Finding {
	list := slices.Clone(findings)
	for i := range list {
		list[i].NodeCount = len(list[i].Nodes)
		list[i].Nodes = list[i].Nodes[:min(nodesStored, len(list[i].Nodes))]
	}
	return list
}

func storedFindings(status *corev1.ConfigMap) []configmap.Finding {
	var findings []configmap.Finding
	if status != nil {
		_ = yaml.Unmarshal([]byte(status.Data[findingsKey]), &findings) // broken by hand: told again
	}
	return findings
}
