package configmap

import (
	"fmt"

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
	// LeftAlone: the ConfigMap is somebody else's, and stays so.
	LeftAlone bool
	// StillNames is the plugin's type where a ConfigMap that is left alone has it in its list, else "".
	StillNames string
	// Base and List are to be remembered for the next Request.
	Base, List *chaining.List
	Findings   []Finding
}

// Make decides what the ConfigMap must be. It never asks for a broken or an empty list, nor for one that Holdfast may not
// write: then Want is nil and a finding says why.
func Make(r Request) Plan {
	settings := r.Cilium.Settings()
	m := maker{Request: r, settings: settings, fix: newFixer(r.Cilium)}
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
	kept     *chaining.List // the same, also where it lies under a key that was read before
	plan     Plan
}

func (m *maker) add(f Finding) { m.plan.Findings = append(m.plan.Findings, f) }

func (m *maker) make() {
	owner := OwnerOf(m.Existing, m.Release, m.KnownUID)
	haveErr := m.readExisting()
	if owner == Foreign || owner == Another {
		// Without plugin.json there is nothing to take it over for, and no telling which entry in it is ours.
		if m.Leaving || m.Plugin == nil || !m.consents(owner, haveErr) {
			m.plan.LeftAlone = true
			if m.have != nil && m.Plugin != nil && len(m.have.Find(m.Plugin.Type())) > 0 {
				m.plan.StillNames = m.Plugin.Type()
			}
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
	named := m.pluginType()
	if named == "" || m.Leaving || len(list.Find(named)) == 0 {
		named = m.formerType()
	}
	if len(list.Find(named)) == 0 {
		named = ""
	}
	m.plan.Want = Object(m.Cilium.Namespace, m.Name, m.plan.Key, release, named, *list, m.Base != nil)
	if m.consented() {
		m.plan.Want.Annotations[AdoptAnnotation] = "accepted"
	}
	m.plan.Cause = m.cause(owner)
}

// consented reports consent on the ConfigMap itself. It holds for one take-over: what is written says that it was used, or
// two releases would take the ConfigMap from each other for ever.
func (m *maker) consented() bool {
	return m.Existing != nil && m.Existing.Annotations[AdoptAnnotation] == "true"
}

// list is the list to write. Fresh is false where it is one that was written before and only has to stay, because what it
// should be cannot be made.
func (m *maker) list(owner Owner, entry *chaining.Entry) (list *chaining.List, fresh bool) {
	if m.Leaving {
		return m.parting(), true
	}
	if entry != nil {
		rendered, err := Render(m.settings, m.Base, entry)
		if err == nil {
			return &rendered, true
		}
		m.add(m.renderFinding(err))
	}
	switch intact := owner == Ours && m.have != nil && m.Existing.Annotations[DigestAnnotation] == Digest(m.have.Bytes()); {
	case intact:
		return m.have, false
	case m.LastGood != nil:
		return m.LastGood, false
	case entry != nil:
		return nil, false
	}
	// There never was a good one. Cilium gets its own entry alone, because without the ConfigMap its agents hang.
	rendered, err := Render(m.settings, m.Base, nil)
	if err != nil {
		m.add(m.renderFinding(err))
		return nil, false
	}
	return &rendered, true
}

// parting is Cilium's part alone: what it was adopted with, what its settings make of it, or what is there without ours.
func (m *maker) parting() *chaining.List {
	rendered, err := Render(m.settings, m.Base, nil)
	if err != nil && m.have != nil {
		rendered, err = m.withoutOurs(*m.have)
	}
	if err != nil {
		m.add(m.renderFinding(err))
		return nil
	}
	return &rendered
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
	case owner == Foreign, owner == Another, m.consented():
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
	if m.Existing.Labels[ManagedByLabel] != ManagedBy || a[ReleaseAnnotation] != m.Release || m.Base != nil && a[AdoptedAnnotation] != "true" {
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
