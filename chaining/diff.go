package chaining

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDifferences bounds what Diff returns: the first few say what is wrong, and a condition's message is short.
const maxDifferences = 20

// Difference is one place where two JSON values differ.
type Difference struct {
	Path string `json:"path"`           // such as plugins[1].resolvers[0]; long names and long paths are shortened with …
	Want string `json:"want,omitempty"` // compact JSON, shortened with …; empty = must not be there
	Have string `json:"have,omitempty"` // compact JSON, shortened with …; empty = is not there
}

// String says the difference in half a sentence.
func (d Difference) String() string {
	path := d.Path
	if path == "" {
		path = "the whole value"
	}
	return path + ": want " + orNothing(d.Want) + ", have " + orNothing(d.Have)
}

func orNothing(value string) string {
	if value == "" {
		return "nothing"
	}
	return value
}

// Diff compares two JSON values. White space, the order of keys and the spelling of strings and numbers do not matter:
// 1, 1.0 and 1e0 are equal, exactly and for any size. The differences come in the order of want, what only have has
// after its object's others, and are at most 20. Paths start with path. An error says which of the two is not strict
// JSON; it wraps this package's sentinels.
func Diff(path string, want, have []byte) ([]Difference, error) {
	wanted, err := parse(want)
	if err != nil {
		return nil, &fault{place: "want", text: err.Error(), kind: err}
	}
	had, err := parse(have)
	if err != nil {
		return nil, &fault{place: "have", text: err.Error(), kind: err}
	}
	return diffNodes(path, &wanted, &had), nil
}

func diffNodes(path string, want, have *node) []Difference {
	var all differences
	all.compare(want, have)
	for i := range all {
		all[i].Path = tail(join(path, all[i].Path))
	}
	return all
}

type differences []Difference

// add notes a difference; nil = absent. Paths grow on the way back, like those of faults.
func (all *differences) add(step string, want, have *node) {
	if len(*all) < maxDifferences {
		*all = append(*all, Difference{Path: step, Want: compact(want), Have: compact(have)})
	}
}

func (all *differences) compare(want, have *node) {
	switch {
	case want.kind != have.kind:
		all.add("", want, have)
	case want.kind == '{':
		all.compareObjects(want, have)
	case want.kind == '[':
		for i := range max(len(want.kids), len(have.kids)) {
			switch {
			case i >= len(want.kids):
				all.add(element(i), nil, &have.kids[i])
			case i >= len(have.kids):
				all.add(element(i), &want.kids[i], nil)
			default:
				all.within(element(i), &want.kids[i], &have.kids[i])
			}
		}
	case want.text == have.text:
	case want.kind == '"' || toDecimal(want.text) != toDecimal(have.text):
		all.add("", want, have)
	}
}

func (all *differences) compareObjects(want, have *node) {
	inWant, inHave := byKey(want), byKey(have)
	for i := range want.kids {
		w := &want.kids[i]
		if h := inHave[w.key]; h != nil {
			all.within(member(w.key), w, h)
		} else {
			all.add(member(w.key), w, nil)
		}
	}
	for i := range have.kids {
		if h := &have.kids[i]; inWant[h.key] == nil {
			all.add(member(h.key), nil, h)
		}
	}
}

func (all *differences) within(step string, want, have *node) {
	known := len(*all)
	all.compare(want, have)
	for i := known; i < len(*all); i++ {
		(*all)[i].Path = join(step, (*all)[i].Path)
	}
}

func byKey(object *node) map[string]*node {
	members := make(map[string]*node, len(object.kids))
	for i := range object.kids {
		members[object.kids[i].key] = &object.kids[i]
	}
	return members
}

// compact writes a value as JSON without white space, cut when it is long; nil is nothing.
func compact(n *node) string {
	if n == nil {
		return ""
	}
	return shorten(string(appendCompact(nil, n)))
}

func appendCompact(to []byte, n *node) []byte {
	if len(to) > echo {
		return to // will be cut anyway
	}
	switch n.kind {
	case '{', '[':
		to = append(to, byte(n.kind))
		for i := range n.kids {
			if i > 0 {
				to = append(to, ',')
			}
			if n.kind == '{' {
				to = append(appendString(to, n.kids[i].key), ':')
			}
			to = appendCompact(to, &n.kids[i])
		}
		return append(to, byte(n.kind)+2) // } and ] stand two after { and [
	case '"':
		return appendString(to, n.text)
	case '0':
		return append(to, n.text...)
	}
	return append(to, n.kind.String()...)
}

// appendString quotes as JSON does; what is not printable is escaped, so that a message stays on its line.
func appendString(to []byte, s string) []byte {
	to = append(to, '"')
	for _, r := range shorten(s) {
		switch {
		case r == '"' || r == '\\':
			to = append(to, '\\', byte(r))
		case strconv.IsPrint(r):
			to = utf8.AppendRune(to, r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				to = fmt.Appendf(to, `\u%04x`, unit)
			}
		}
	}
	return append(to, '"')
}
