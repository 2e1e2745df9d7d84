package lock

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Record is what a kernel holds of a lock, in a form that can be stored as JSON and compared: what was read when the lock was
// applied, against what is read later. It leaves out what passes: counted packets, handles, and what is in the sets ticket and
// alive.
type Record struct {
	// Generation is the kernel's count of the namespace's transactions when this was read: while it stands there, nothing has changed. It
	// is not compared.
	Generation uint32 `json:"generation,omitempty"`
	// Flags of the table: 1 would be dormant, that is, without effect.
	Flags      uint32          `json:"flags"`
	Sets       []RecordedSet   `json:"sets"`
	Objects    []string        `json:"objects"`
	Flowtables []string        `json:"flowtables,omitempty"`
	Chains     []RecordedChain `json:"chains"`
}

// RecordedSet is one set: its definition and its elements as the kernel wrote them in netlink.
type RecordedSet struct {
	Name       string   `json:"name"`
	Definition []byte   `json:"definition"`
	Elements   [][]byte `json:"elements,omitempty"`
}

// RecordedChain is one chain with its rules in their order.
type RecordedChain struct {
	Name string `json:"name"`
	// Definition are the netlink attributes of its type, hook, priority, policy and flags.
	Definition []byte         `json:"definition"`
	Rules      []RecordedRule `json:"rules,omitempty"`
}

// RecordedRule is one rule.
type RecordedRule struct {
	// Text is the rule as the release that applied it wrote it; empty in what is read later. It is not compared.
	Text string `json:"text,omitempty"`
	// Expressions stands for the bytes of NFTA_RULE_EXPRESSIONS: their SHA-256. To read them as rules would lose what the reader does
	// not know.
	Expressions []byte `json:"digest"`
}

// MarshalJSON writes what encoding/json would by reflection, which takes a plugin, where nothing is warm, several times as long.
func (r Record) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 12<<10), '{')
	if r.Generation != 0 {
		out = append(strconv.AppendUint(append(out, `"generation":`...), uint64(r.Generation), 10), ',')
	}
	out = append(strconv.AppendUint(append(out, `"flags":`...), uint64(r.Flags), 10), `,"sets":`...)
	out = appendList(out, r.Sets, func(out []byte, s RecordedSet) []byte {
		out = appendBytes(append(appendText(append(out, `{"name":`...), s.Name), `,"definition":`...), s.Definition)
		if len(s.Elements) > 0 {
			out = appendList(append(out, `,"elements":`...), s.Elements, appendBytes)
		}
		return append(out, '}')
	})
	out = appendList(append(out, `,"objects":`...), r.Objects, appendText)
	if len(r.Flowtables) > 0 {
		out = appendList(append(out, `,"flowtables":`...), r.Flowtables, appendText)
	}
	out = appendList(append(out, `,"chains":`...), r.Chains, func(out []byte, c RecordedChain) []byte {
		out = appendBytes(append(appendText(append(out, `{"name":`...), c.Name), `,"definition":`...), c.Definition)
		if len(c.Rules) > 0 {
			out = appendList(append(out, `,"rules":`...), c.Rules, appendRule)
		}
		return append(out, '}')
	})
	return append(out, '}'), nil
}

func appendRule(out []byte, r RecordedRule) []byte {
	out = append(out, '{')
	if r.Text != "" {
		out = append(appendText(append(out, `"text":`...), r.Text), ',')
	}
	return append(appendBytes(append(out, `"digest":`...), r.Expressions), '}')
}

func appendList[T any](out []byte, list []T, one func([]byte, T) []byte) []byte {
	if list == nil {
		return append(out, "null"...)
	}
	out = append(out, '[')
	for i, e := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = one(out, e)
	}
	return append(out, ']')
}

func appendBytes(out, data []byte) []byte {
	if data == nil {
		return append(out, "null"...)
	}
	return append(base64.StdEncoding.AppendEncode(append(out, '"'), data), '"')
}

// appendText leaves to encoding/json what isn't plain.
func appendText(out []byte, text string) []byte {
	start := len(out)
	out = append(out, '"')
	for _, c := range []byte(text) {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < ' ' || c > '~' || c == '<' || c == '>' || c == '&':
			quoted, _ := json.Marshal(text) // a string can always be written
			return append(out[:start], quoted...)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// ParseRecord reads what json.Marshal writes of a Record; unknown keys and anything after it are ErrRecord.
func ParseRecord(data []byte) (Record, error) {
	var r Record
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("parse the record: %w: %w", ErrRecord, err)
	}
	if d.More() || len(r.Chains) == 0 || len(r.Sets) == 0 {
		return Record{}, fmt.Errorf("parse the record: has no chains or sets, or more follows: %w", ErrRecord)
	}
	return r, nil
}

// Compare is nil if the kernel's record equals r, and else ErrDiffers with the first difference named, rule by rule.
func (r Record) Compare(kernel Record) error {
	if text := r.difference(kernel); text != "" {
		return fmt.Errorf("%w: %s", ErrDiffers, text)
	}
	return nil
}

func (r Record) difference(kernel Record) string {
	if r.Flags != kernel.Flags {
		return fmt.Sprintf("table flags are %d, not %d", kernel.Flags, r.Flags)
	}
	if text := names("chain", r.Chains, kernel.Chains, func(c RecordedChain) string { return c.Name }); text != "" {
		return text
	}
	for i, c := range r.Chains {
		if text := c.difference(kernel.Chains[i]); text != "" {
			return text
		}
	}
	if text := names("set", r.Sets, kernel.Sets, func(s RecordedSet) string { return s.Name }); text != "" {
		return text
	}
	for i, s := range r.Sets {
		if text := s.difference(kernel.Sets[i]); text != "" {
			return text
		}
	}
	same := func(name string) string { return name }
	if text := names("object", r.Objects, kernel.Objects, same); text != "" {
		return text
	}
	return names("flowtable", r.Flowtables, kernel.Flowtables, same)
}

func (c RecordedChain) difference(kernel RecordedChain) string {
	if !bytes.Equal(c.Definition, kernel.Definition) {
		return fmt.Sprintf("chain %s: another type, hook, priority, policy or flag", c.Name)
	}
	for i := range max(len(c.Rules), len(kernel.Rules)) {
		switch {
		case i >= len(kernel.Rules):
			return fmt.Sprintf("chain %s: rule %d (%s) is missing", c.Name, i+1, c.Rules[i].Text)
		case i >= len(c.Rules):
			return fmt.Sprintf("chain %s: rule %d was added", c.Name, i+1)
		case !bytes.Equal(c.Rules[i].Expressions, kernel.Rules[i].Expressions):
			return fmt.Sprintf("chain %s: rule %d is not (%s)", c.Name, i+1, c.Rules[i].Text)
		}
	}
	return ""
}

func (s RecordedSet) difference(kernel RecordedSet) string {
	if !bytes.Equal(s.Definition, kernel.Definition) {
		return fmt.Sprintf("set %s: another type, flag or default", s.Name)
	}
	if slices.EqualFunc(s.Elements, kernel.Elements, bytes.Equal) {
		return ""
	}
	for _, e := range s.Elements {
		if !slices.ContainsFunc(kernel.Elements, func(k []byte) bool { return bytes.Equal(e, k) }) {
			return fmt.Sprintf("set %s: element %x is missing", s.Name, e)
		}
	}
	if len(kernel.Elements) != len(s.Elements) {
		return fmt.Sprintf("set %s: has %d elements, not %d", s.Name, len(kernel.Elements), len(s.Elements))
	}
	return ""
}

// names compares two lists, which are sorted by name.
func names[T any](what string, want, kernel []T, name func(T) string) string {
	for i := range max(len(want), len(kernel)) {
		switch {
		case i >= len(kernel) || i < len(want) && name(want[i]) < name(kernel[i]):
			return fmt.Sprintf("%s %s is missing", what, name(want[i]))
		case i >= len(want) || name(want[i]) > name(kernel[i]):
			return fmt.Sprintf("%s %s was added", what, name(kernel[i]))
		}
	}
	return ""
}
