package configmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-cni/holdfast/chaining"
)

// consents reports whether a ConfigMap that this release did not write may be taken over, and says what stands against it.
func (m *maker) consents(owner Owner, haveErr error) bool {
	if haveErr != nil {
		m.add(Finding{ID: ListInvalid, Severity: Error, Object: m.object,
			Message: fmt.Sprintf("key %s holds no list that could be kept: %v", m.plan.Key, haveErr),
			Fix: Fix{Command: fmt.Sprintf("kubectl --namespace %s edit configmap %s to correct it, or delete the ConfigMap and let "+
				"Holdfast make it", m.Cilium.Namespace, m.Name)}})
		return false
	}
	if m.have == nil && len(m.Existing.Data) > 0 {
		keys := slices.Sorted(maps.Keys(m.Existing.Data))
		keys = keys[:min(5, len(keys))]
		m.add(Finding{ID: ConfigMapKeyDiffers, Severity: Error, Object: m.object,
			Message: fmt.Sprintf("has %s but not %s, the key that Cilium reads", strings.Join(keys, ", "), m.plan.Key),
			Fix:     m.fix.values("cni.configMapKey=" + keys[0])})
	}
	if m.consented() || m.Adopt && owner == Foreign {
		return true
	}
	who := "was not written by Holdfast"
	if owner == Another {
		who = "belongs to Holdfast release " + shorten(m.Existing.Annotations[ReleaseAnnotation])
	}
	f := Finding{ID: ConfigMapForeign, Severity: Error, Object: m.object,
		Message: who + ", so it is left alone",
		Fix: Fix{Value: "cilium.configMap.adopt=true (Holdfast's chart)",
			Command: fmt.Sprintf("kubectl --namespace %s annotate configmap %s --overwrite %s=true", m.Cilium.Namespace, m.Name, AdoptAnnotation)}}
	if owner == Another {
		f.Fix.Value = ""
	}
	if m.have != nil && m.Plugin != nil && m.PluginErr == nil {
		if f.Differences = Compare(m.settings, *m.have, *m.Plugin); len(f.Differences) > 0 {
			f.Message += "; it is not what Cilium needs to read"
		} else {
			f.Message += "; its list is right as it is"
			f.Severity = Warning
		}
	}
	m.add(f)
	return false
}

// checkPlugin returns the entry, or reports why there is none.
func (m *maker) checkPlugin() *chaining.Entry {
	if m.PluginErr == nil && m.Plugin != nil {
		return m.Plugin
	}
	f := Finding{ID: PluginMissing, Severity: Error, Object: m.PluginObject,
		Message: "plugin.json is not there, so nothing is chained that was not before",
		Fix:     Fix{Value: "plugin.resolvers (Holdfast's chart)", Command: "helm upgrade --install with it, or kubectl edit the ConfigMap"}}
	if m.PluginErr != nil {
		f.ID, f.Message = PluginInvalid, cut(m.PluginErr.Error())+"; the last good list stays"
		f.Fix = Fix{Value: "plugin (Holdfast's chart)", Command: "correct the key that the message names, then helm upgrade (Helm 4: with --force-conflicts where it was edited by hand)"}
	}
	m.add(f)
	return nil
}

func (m *maker) renderFinding(err error) Finding {
	f := Finding{ID: ListInvalid, Severity: Error, Object: m.object, Message: "the list cannot be made: " + err.Error(),
		Fix: Fix{Command: fmt.Sprintf("kubectl --namespace %s get configmap %s --output yaml shows what it starts from", m.Cilium.Namespace, m.Name)}}
	switch {
	case errors.Is(err, ErrListMissing):
		f.ID = ChainingListMissing
		f.Fix = Fix{Value: "cilium.configMap.adopt=true (Holdfast's chart)",
			Command: fmt.Sprintf("kubectl --namespace %s create configmap %s --from-file=%s=LIST with the node's list, %s included",
				m.Cilium.Namespace, m.Name, m.plan.Key, ciliumType)}
	case errors.Is(err, ErrModeUnknown):
		f.ID = ChainingModeUnknown
		f.Fix = m.fix.setting(KeyChainingMode, defaultMode, m.settings.Get(KeyChainingMode))
	case errors.Is(err, ErrNoCilium):
		f.Fix = Fix{Command: fmt.Sprintf("kubectl --namespace %s edit configmap %s and put %s first", m.Cilium.Namespace, m.Name, ciliumType)}
	}
	return f
}

// checkShape reports an adopted list that Cilium would not write itself.
func (m *maker) checkShape(list chaining.List) {
	for _, d := range shape(m.settings, list) {
		f := Finding{ID: ListNameDiffers, Severity: Error, Object: m.object, Differences: []chaining.Difference{d},
			Message: "its list is not named " + ciliumName + ", as one of Cilium's without a chaining mode must be"}
		if d.Path != "name" {
			f.ID, f.Message = ListOrderDiffers, "its list does not start with "+ciliumType+", as one without a chaining mode must"
		}
		f.Fix = Fix{Command: fmt.Sprintf("kubectl --namespace %s edit configmap %s: correct the list and set the annotation %s: \"true\" in the same edit",
			m.Cilium.Namespace, m.Name, AdoptAnnotation)}
		m.add(f)
	}
}

// cut keeps a message short enough for an Event and a status.
func cut(text string) string {
	const most = 800
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
