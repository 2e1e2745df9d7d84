package chaining

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// shape is the type libcni decodes a value into. encoding/json lets null stand for any of them.
type shape struct {
	kind   jsontext.Kind // 't' stands for both booleans
	want   string
	each   *shape  // every element or member, whatever its name
	fields []field // members by name, matched as encoding/json does: without regard to case
}

type field struct {
	name string
	shape
}

var (
	aString = shape{kind: '"', want: "a string"}
	aBool   = shape{kind: 't', want: "true or false"}
	strs    = shape{kind: '[', want: "an array of strings", each: &aString}
)

// pluginShape is what a plugin's entry is decoded into (cni v1.3.1, pkg/types/types.go, PluginConf). An entry of
// another shape makes the whole list invalid to the runtime. "type" has rules of its own.
var pluginShape = shape{kind: '{', want: "an object", fields: []field{
	{"cniVersion", aString},
	{"name", aString},
	{"capabilities", shape{kind: '{', want: "an object of true or false", each: &aBool}},
	{"ipam", shape{kind: '{', want: "an object", fields: []field{{"type", aString}}}},
	{"dns", shape{kind: '{', want: "an object", fields: []field{
		{"nameservers", strs}, {"domain", aString}, {"search", strs}, {"options", strs},
	}}},
	{"prevResult", shape{kind: '{', want: "an object"}},
	{"cni.dev/valid-attachments", shape{kind: '[', want: "an array of objects", each: &shape{
		kind: '{', want: "an object", fields: []field{{"containerID", aString}, {"ifname", aString}},
	}}},
}}

func (s *shape) check(n *node) *fault {
	kind := n.kind
	if kind == 'f' {
		kind = 't'
	}
	if kind == 'n' {
		return nil
	}
	if kind != s.kind {
		return newFault(ErrInvalid, "", "must be %s: correct or remove it", s.want)
	}
	for i := range n.kids {
		want := s.each
		if want == nil {
			want = s.field(n.kids[i].key)
		}
		if want == nil {
			continue
		}
		if f := want.check(&n.kids[i]); f != nil {
			return f.under(n.step(i))
		}
	}
	return nil
}

func (s *shape) field(key string) *shape {
	for i := range s.fields {
		if strings.EqualFold(s.fields[i].name, key) {
			return &s.fields[i].shape
		}
	}
	return nil
}

// refuseFolded refuses a member that some readers take for one of keys and others do not: encoding/json ignores case
// where it decodes into a struct, and minds it where it decodes into a map. libcni does both.
func refuseFolded(object *node, keys ...string) *fault {
	for i := range object.kids {
		for _, key := range keys {
			if have := object.kids[i].key; have != key && strings.EqualFold(have, key) {
				return newFault(ErrDuplicateKey, "", "key %s is read as %q by some and ignored by others: write %q or rename it", quote(have), key, key)
			}
		}
	}
	return nil
}

// refuseUnusable finds, anywhere in a value, what is valid JSON and still can't be loaded: a number that float64
// can't hold, and a template that nobody rendered.
func refuseUnusable(n *node) *fault {
	if n.kind == '0' && !fitsFloat(n.text) {
		return newFault(ErrInvalid, "", "number %s is out of range: write a smaller one", shorten(n.text))
	}
	if n.kind == '"' && isTemplate(n.text) {
		return newFault(ErrTemplate, "", "%s was never rendered: write what it stands for", quote(n.text))
	}
	for i := range n.kids {
		if isTemplate(n.kids[i].key) {
			return newFault(ErrTemplate, "", "key %s was never rendered: write what it stands for", quote(n.kids[i].key))
		}
		if f := refuseUnusable(&n.kids[i]); f != nil {
			return f.under(n.step(i))
		}
	}
	return nil
}

func isTemplate(text string) bool {
	_, after, found := strings.Cut(text, "{{")
	return found && strings.Contains(after, "}}")
}

// checkName holds what libcni wants of a network's name (cni v1.3.1, pkg/utils/utils.go, ValidateNetworkName), and
// bounds it: it names a directory. Plugin types follow the same rule, for they name files.
func checkName(name *node, what string) *fault {
	switch {
	case name == nil:
		return newFault(ErrInvalid, "", "missing: give %s", what)
	case name.kind != '"':
		return newFault(ErrInvalid, "", "must be a string: give %s", what)
	case name.text == "":
		return newFault(ErrInvalid, "", "empty: give %s", what)
	case len(name.text) > 255:
		return newFault(ErrInvalid, "", "longer than 255 bytes: give %s", what)
	}
	for i, r := range name.text {
		plain := r < 0x80 && isAlnum(byte(r))
		if !plain && !strings.ContainsRune("._-", r) {
			return newFault(ErrInvalid, "", "contains %q: give %s only", string(r), what)
		}
		if !plain && i == 0 {
			return newFault(ErrInvalid, "", "starts with %q: give %s only", string(r), what)
		}
	}
	return nil
}
