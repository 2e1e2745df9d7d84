package chaining

import (
	"bytes"
	"slices"
	"strings"
)

// List is a parsed network configuration list. Immutable, so safe to share; the zero value is not a list.
type List struct {
	data          []byte
	name, version string
	inlinedOnly   bool
	spans         []span
	plugins       []Entry
}

// onlyInlined is the key that forbids a runtime to add drop-ins (CNI specification 1.1.0, section 1).
const onlyInlined = "loadOnlyInlinedPlugins"

// span is where a plugin stands in the list's bytes.
type span struct{ start, end int32 }

// Parse reads a network configuration list, the content of a .conflist file: an object with name, cniVersion and
// plugins (CNI specification, section 1). It keeps a copy of data. What it accepts and refuses is the package's topic;
// the errors wrap this package's sentinels.
func Parse(data []byte) (List, error) {
	root, err := parse(data)
	if err != nil {
		return List{}, err
	}
	list := List{data: bytes.Clone(data)}
	if f := list.read(&root); f != nil {
		return List{}, f
	}
	return list, nil
}

// read checks a list from the outside in, so that the first error is the one to repair first.
func (l *List) read(root *node) (f *fault) {
	if root.kind != '{' {
		return newFault(ErrInvalid, "", "must be an object with name, cniVersion and plugins: give a CNI network configuration list")
	}
	if f = refuseFolded(root, "name", "cniVersion", "plugins"); f != nil {
		return f
	}
	name := root.member("name")
	if f = checkName(name, "the network's name"); f != nil {
		return f.under("name")
	}
	l.name = name.text
	if l.version, f = listVersion(root); f != nil {
		return f
	}
	for _, key := range []string{"disableCheck", "disableGC", onlyInlined} {
		set, f := readFlag(root.member(key))
		if f != nil {
			return f.under(key)
		}
		l.inlinedOnly = l.inlinedOnly || set && key == onlyInlined
	}
	if f = l.readPlugins(root); f != nil {
		return f
	}
	return refuseUnusable(root)
}

func (l *List) readPlugins(root *node) *fault {
	plugins := root.member("plugins")
	switch {
	case plugins == nil && root.member("type") != nil:
		return newFault(ErrNoPlugins, "plugins", "missing, but there is a type: this is one plugin's configuration, give it where those are read (.conf)")
	case plugins == nil:
		return newFault(ErrNoPlugins, "plugins", "missing: give an array of plugin configurations")
	case plugins.kind != '[':
		return newFault(ErrInvalid, "plugins", "must be an array: give an array of plugin configurations")
	case len(plugins.kids) == 0:
		return newFault(ErrNoPlugins, "plugins", "empty: give at least one plugin configuration")
	}
	for i, plugin := range plugins.kids {
		if f := checkPlugin(&plugin); f != nil {
			return f.under(join("plugins", element(i)))
		}
		l.plugins = append(l.plugins, entryOf(l.data, plugin))
		l.spans = append(l.spans, span{plugin.start, plugin.end})
	}
	return nil
}

// readFlag reads a boolean the way libcni does, which takes "true" and "false" in any case for one as well.
func readFlag(n *node) (bool, *fault) {
	switch {
	case n == nil || n.kind == 'f':
		return false, nil
	case n.kind == 't':
		return true, nil
	case n.kind == '"' && strings.ToLower(n.text) == "true":
		return true, nil
	case n.kind == '"' && strings.ToLower(n.text) == "false":
		return false, nil
	}
	return false, newFault(ErrInvalid, "", "must be true or false: correct or remove it")
}

// Bytes returns a copy of exactly the bytes parsed, or made by an edit.
func (l List) Bytes() []byte { return bytes.Clone(l.data) }

// Name is the network's name.
func (l List) Name() string { return l.name }

// CNIVersion is the version a runtime with libcni v1.3.1 uses for the list: the newest one it knows of cniVersion and
// cniVersions. It is empty where none is given, which stands for 0.1.0.
func (l List) CNIVersion() string { return l.version }

// InlinedOnly says whether the list forbids a runtime to add the drop-ins of its network (loadOnlyInlinedPlugins, CNI
// specification 1.1.0).
func (l List) InlinedOnly() bool { return l.inlinedOnly }

// Plugins returns the entries in the order they are called for ADD.
func (l List) Plugins() []Entry { return slices.Clone(l.plugins) }

// Find returns the indexes of the plugins of a type, in order; nil if there is none.
func (l List) Find(pluginType string) []int {
	var found []int
	for i, plugin := range l.plugins {
		if plugin.Type() == pluginType {
			found = append(found, i)
		}
	}
	return found
}
