package configmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
)

// Cause says why a ConfigMap is written.
type Cause string

// Causes.
const (
	Unchanged Cause = ""         // nothing is written
	Created   Cause = "created"  // there was none
	Updated   Cause = "updated"  // what the list must be has changed
	Repaired  Cause = "repaired" // somebody else had changed it
	Adopted   Cause = "adopted"  // taken over with consent
	Let       Cause = "released" // handed back, Cilium's part alone
)

// Request is what a plan is made from.
type Request struct {
	Cilium *Cilium
	// Name of the list's ConfigMap, in Cilium's namespace.
	Name string
	// Release is namespace/name of this Holdfast release.
	Release string
	// Plugin is the entry; PluginErr says why there is none.
	Plugin    *chaining.Entry
	PluginErr error
	// PluginObject names what the entry was read from.
	PluginObject string
	// Existing is the ConfigMap as it is, or nil.
	Existing *corev1.ConfigMap
	// KnownUID is that of the ConfigMap this release wrote last, or "".
	KnownUID string
	// Base is Cilium's part of a list that was adopted, or nil.
	Base *chaining.List
	// LastGood is the list written last, or nil.
	LastGood *chaining.List
	// Adopt consents to the take-over of a ConfigMap that Holdfast did not write.
	Adopt bool
	// Leaving hands the ConfigMap back.
	Leaving bool
}

// Plan is what to do about the ConfigMap.
type Plan struct {
	Cause Cause
	// Key that Cilium reads.
	Key string
	// Want is the ConfigMap as it must be; nil where it must not be touched.
	Want *corev1.ConfigMap
	// Base and List are to be remembered for the next Request.
	Base, List *chaining.List
	Findings   []Finding
}

// Make decides what the ConfigMap must be. It never asks for a broken or an empty list, nor for one that Holdfast may not
// write: then Want is nil and a finding says why.
func Make(r Request) Plan {
	sources, err := ParseSources(r.Cilium.DaemonSet, r.Cilium.Namespace)
	if err != nil {
		sources = DefaultSources(r.Cilium.Namespace) // Check reports it
	}
	settings := r.Cilium.Groups(sources)[0].Settings
	m := maker{Request: r, settings: settings, fix: newFixer(r.Cilium, sources)}
	m.plan.Key = settings.ListKey()
	m.object = fmt.Sprintf("ConfigMap %s/%s", r.Cilium.Namespace, r.Name)
	m.make()
	Sort(m.plan.Findings)
	return m.plan
}

type maker struct {
	Request
	settings Settings
	fix      fixer
	object   string
	have     *chaining.List // the list as it is, if it is one
	plan     Plan
}

func (m *maker) add(f Finding) { m.plan.Findings = append(m.plan.Findings, f) }

func (m *maker) make() {
	owner := OwnerOf(m.Existing, m.Release, m.KnownUID)
	haveErr := m.readExisting()
	if owner == Foreign || owner == Another {
		if m.Leaving || !m.consents(owner, haveErr) {
			m.checkPlugin()
			return
		}
	}
	m.chooseBase(owner)
	entry := m.checkPlugin()
	if m.Leaving {
		entry = nil
	}
	list, fresh := m.list(owner, entry)
	if list == nil {
		return
	}
	if fresh {
		m.checkShape(*list)
	}
	m.plan.Base, m.plan.List = m.Base, list
	release := m.Release
	if m.Leaving {
		release = ""
	}
	m.plan.Want = Object(m.Cilium.Namespace, m.Name, m.plan.Key, release, *list, m.Base != nil)
	if m.consented() {
		m.plan.Want.Annotations[AdoptAnnotation] = "accepted"
	}
	m.plan.Cause = m.cause(owner)
}

// readExisting parses the list that is there; the error says why there is none to keep.
func (m *maker) readExisting() error {
	if m.Existing == nil {
		return nil
	}
	text, found := m.Existing.Data[m.plan.Key]
	if !found {
		return nil
	}
	list, err := chaining.Parse([]byte(text))
	if err == nil {
		m.have = &list
	}
	return err
}

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

// consented reports consent on the ConfigMap itself. It holds for one take-over: what is written says that it was used, or
// two releases would take the ConfigMap from each other for ever.
func (m *maker) consented() bool {
	return m.Existing != nil && m.Existing.Annotations[AdoptAnnotation] == "true"
}

// chooseBase finds Cilium's part of an adopted list: remembered, or in the ConfigMap that is to be, or was, adopted.
func (m *maker) chooseBase(owner Owner) {
	adopted := m.Existing != nil && m.Existing.Annotations[AdoptedAnnotation] == "true" && (owner == Ours || owner == Released)
	if m.have == nil || owner != Foreign && owner != Another && (m.Base != nil || !adopted) {
		return
	}
	list := *m.have
	if m.Plugin != nil {
		without, err := Without(list, m.Plugin.Type())
		if err != nil {
			return // it held nothing but the plugin, and so nothing to keep
		}
		list = without
	}
	m.Base = &list
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
		f.ID, f.Message = PluginInvalid, fmt.Sprintf("%v; the last good list stays", m.PluginErr)
		f.Fix = Fix{Value: "plugin (Holdfast's chart)", Command: "correct the key that the message names, then helm upgrade (Helm 4: with --force-conflicts where it was edited by hand)"}
	}
	m.add(f)
	return nil
}

// list is the list to write. Fresh is false where it is one that was written before and only has to stay.
func (m *maker) list(owner Owner, entry *chaining.Entry) (list *chaining.List, fresh bool) {
	if entry == nil && !m.Leaving {
		intact := owner == Ours && m.have != nil && m.Existing.Annotations[DigestAnnotation] == Digest(m.have.Bytes())
		switch {
		case intact:
			return m.have, false
		case m.LastGood != nil:
			return m.LastGood, false
		}
	}
	rendered, err := Render(m.settings, m.Base, entry)
	if err == nil {
		return &rendered, true
	}
	m.add(m.renderFinding(err))
	return nil, false
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
		f.Fix = Fix{Command: fmt.Sprintf("kubectl --namespace %s delete configmap %s lets Holdfast make it anew", m.Cilium.Namespace, m.Name)}
		m.add(f)
	}
}

func (m *maker) cause(owner Owner) Cause {
	switch {
	case owner == Nobody && m.KnownUID != "" && !m.Leaving:
		return Repaired // it was there, and somebody deleted it
	case owner == Nobody:
		return Created
	case upToDate(m.Existing, m.plan.Want):
		return Unchanged
	case m.Leaving:
		return Let
	case owner == Foreign, owner == Another:
		return Adopted
	case owner == Ours && m.tampered():
		return Repaired
	default:
		return Updated
	}
}

// tampered reports whether the ConfigMap is not as this release left it.
func (m *maker) tampered() bool {
	a := m.Existing.Annotations
	if m.Existing.Labels[ManagedByLabel] != ManagedBy || a[ReleaseAnnotation] != m.Release {
		return true
	}
	if m.LastGood != nil && a[DigestAnnotation] != Digest(m.LastGood.Bytes()) {
		return true
	}
	for _, text := range m.Existing.Data {
		if Digest([]byte(text)) == a[DigestAnnotation] {
			return false
		}
	}
	return true
}
