package configmap

import "github.com/holdfast-cni/holdfast/chaining"

// readExisting parses the list that is there; the error says why there is none to keep.
func (m *maker) readExisting() error {
	if m.Existing == nil {
		return nil
	}
	text, found := m.Existing.Data[m.plan.Key]
	if !found {
		for _, old := range m.Existing.Data {
			if Digest([]byte(old)) == m.Existing.Annotations[DigestAnnotation] {
				list, err := chaining.Parse([]byte(old))
				if err == nil {
					m.kept = &list
				}
				return err
			}
		}
		return nil
	}
	list, err := chaining.Parse([]byte(text))
	if err == nil {
		m.have, m.kept = &list, &list
	}
	return err
}

// chooseBase finds Cilium's part of an adopted list: remembered, or in the ConfigMap that is to be, or was, adopted. Consent
// on a ConfigMap of our own means that its list, as edited, is to be the new start.
func (m *maker) chooseBase(owner Owner) {
	adopt := owner == Foreign
	if m.Existing != nil && m.Existing.Annotations[AdoptedAnnotation] == "true" {
		adopt = adopt || owner == Another || m.Base == nil
	}
	if m.have != nil && m.consented() && owner != Another {
		adopt = true
	}
	start := m.Base
	if adopt && m.kept != nil {
		start = m.kept
	}
	if start == nil {
		return
	}
	if list, err := m.withoutOurs(*start); err == nil {
		m.Base = &list
	} // else it held nothing but ours, and so nothing to keep
}

// withoutOurs takes every entry out that is, or was, Holdfast's to put in.
func (m *maker) withoutOurs(list chaining.List) (chaining.List, error) {
	for _, name := range []string{m.pluginType(), m.formerType()} {
		if name == "" || name == ciliumType {
			continue
		}
		var err error
		if list, err = Without(list, name); err != nil {
			return chaining.List{}, err
		}
	}
	return list, nil
}

// pluginType is that of the entry as it should be; formerType that of the one in the ConfigMap.
func (m *maker) pluginType() string {
	if m.Plugin == nil {
		return ""
	}
	return m.Plugin.Type()
}

func (m *maker) formerType() string {
	if m.Existing == nil {
		return ""
	}
	return m.Existing.Annotations[PluginAnnotation]
}
