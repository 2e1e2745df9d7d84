package cluster

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/configmap"
)

// Keys of the status ConfigMap. The first two are for people and alerts, the last is for the watcher itself.
const (
	conditionsKey = "conditions"
	findingsKey   = "findings"
	memoryKey     = "memory"
)

// memory is what the watcher must not forget between two of its lives.
type memory struct {
	// UID of the ConfigMap that was written last.
	UID string `json:"uid,omitempty"`
	// Base is Cilium's part of an adopted list, List the list written last.
	Base string `json:"base,omitempty"`
	List string `json:"list,omitempty"`
}

// recall reads the memory from the status ConfigMap. What cannot be read is forgotten: then the marks on the ConfigMap
// itself say enough.
func recall(status *corev1.ConfigMap) memory {
	var m memory
	if status != nil {
		if err := json.Unmarshal([]byte(status.Data[memoryKey]), &m); err != nil {
			return memory{}
		}
	}
	return m
}

// String is the memory as stored. It cannot fail: the fields are strings. Without HTML's escapes it takes at most twice the
// room of the lists in it (configmap.MaxList).
func (m memory) String() string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(m)
	return b.String()
}

// into fills in the parts of a request that the memory knows.
func (m memory) into(r *configmap.Request) {
	r.KnownUID = m.UID
	r.Base = parsed(m.Base)
	r.LastGood = parsed(m.List)
}

func parsed(text string) *chaining.List {
	list, err := chaining.Parse([]byte(text))
	if err != nil {
		return nil
	}
	return &list
}

// remember is the memory of a plan whose ConfigMap, with that UID, is in the cluster.
func remember(plan configmap.Plan, uid string) memory {
	m := memory{UID: uid, List: string(plan.List.Bytes())}
	if plan.Base != nil {
		m.Base = string(plan.Base.Bytes())
	}
	return m
}
