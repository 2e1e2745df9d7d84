package chaining

import "bytes"

// Entry is one plugin's configuration: a JSON object with a type. Immutable; the zero value is not an entry.
type Entry struct {
	data []byte
	root node
}

// ParseEntry reads one plugin's configuration. Refused is whatever would make a list that holds it invalid, and more
// (see the package). The errors wrap this package's sentinels and name paths within the entry.
//
// Numbers are kept as they are written. Still, libcni passes them through float64, so that an integer beyond 2^53
// comes back from a runtime as another one, and [Check] will say so: write such a value as a string.
func ParseEntry(data []byte) (Entry, error) {
	root, err := parse(data)
	if err != nil {
		return Entry{}, err
	}
	if f := checkPlugin(&root); f != nil {
		return Entry{}, f
	}
	return entryOf(data, root), nil
}

// Bytes returns a copy of the entry as it was written, without the white space around it.
func (e Entry) Bytes() []byte { return bytes.Clone(e.data) }

// Type is the plugin's type: the name of its executable.
func (e Entry) Type() string {
	if kind := e.root.member("type"); kind != nil {
		return kind.text
	}
	return ""
}

func entryOf(text []byte, root node) Entry {
	root.key = ""
	return Entry{data: bytes.Clone(text[root.start:root.end]), root: root}
}

// checkPlugin holds one element of a list's plugins to what libcni needs of it.
func checkPlugin(plugin *node) *fault {
	if plugin.kind != '{' {
		return newFault(ErrInvalid, "", "must be an object: give one plugin's configuration")
	}
	if f := refuseFolded(plugin, "type", "name", "cniVersion"); f != nil {
		return f
	}
	kind := plugin.member("type")
	if f := checkName(kind, "the plugin's file name"); f != nil {
		if kind == nil && plugin.member("plugins") != nil {
			f.text = "missing, but there are plugins: this is a list, give it where lists are read (.conflist)"
		}
		return f.under("type")
	}
	if f := pluginShape.check(plugin); f != nil {
		return f
	}
	return refuseUnusable(plugin)
}
