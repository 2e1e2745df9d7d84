package chaining

import (
	"bytes"
	"slices"
)

// Append returns the list with e after its last plugin. Nothing but a comma, white space in the list's own style and
// the entry's bytes is inserted: an element of a list whose elements stand on lines of their own gets such a line.
// Removing the last plugin of the result gives the bytes of l again. An entry of the same type may be there already;
// see [Check]. The error is about the limits of a list, as in [Parse].
func (l List) Append(e Entry) (List, error) {
	if len(l.plugins) == 0 {
		return List{}, newFault(ErrEmpty, "append", "the list was never parsed: parse one first")
	}
	return l.appendAll([]Entry{e})
}

// appendAll does so for many at the price of one: a list is parsed anew for each edit.
func (l List) appendAll(entries []Entry) (List, error) {
	if len(entries) == 0 {
		return l, nil
	}
	var with []byte
	lead := l.lead()
	for _, e := range entries {
		with = slices.Concat(with, []byte(","), lead, e.data)
	}
	at := l.spans[len(l.spans)-1].end
	return l.splice(at, at, with)
}

// Replace returns the list with e in the place of plugin i; every byte before and after stays.
func (l List) Replace(i int, e Entry) (List, error) {
	if f := l.checkIndex("replace", i); f != nil {
		return List{}, f
	}
	return l.splice(l.spans[i].start, l.spans[i].end, e.data)
}

// Remove returns the list without plugin i and the comma it came with. The error wraps ErrNoPlugins if there is no
// other plugin, because a list needs one.
func (l List) Remove(i int) (List, error) {
	if f := l.checkIndex("remove", i); f != nil {
		return List{}, f
	}
	switch {
	case len(l.spans) == 1:
		return List{}, newFault(ErrNoPlugins, "remove "+place(i), "the only plugin of the list: remove the list instead")
	case i == 0: // keeps the first element's own white space before it
		return l.splice(l.spans[0].start, l.spans[1].start, nil)
	}
	return l.splice(l.spans[i-1].end, l.spans[i].end, nil)
}

func (l List) checkIndex(act string, i int) *fault {
	if i < 0 || i >= len(l.spans) {
		return newFault(ErrIndex, act+" "+place(i), "the list ends with %s: name a plugin it has", place(len(l.spans)-1))
	}
	return nil
}

// splice replaces a range of bytes. The result is parsed anew: whatever was handed in, a broken list can't come out.
func (l List) splice(start, end int32, with []byte) (List, error) {
	return Parse(slices.Concat(l.data[:start], with, l.data[end:]))
}

// lead is the white space a new last element is set off with: that of the last element which begins a line, else that
// of the last one.
func (l List) lead() []byte {
	for _, s := range slices.Backward(l.spans) {
		if lead := l.leadAt(s.start); bytes.IndexByte(lead, '\n') >= 0 {
			return lead[startOfBreak(lead):]
		}
	}
	last := l.spans[len(l.spans)-1]
	lead := l.leadAt(last.start)
	if len(l.spans) == 1 && bytes.IndexByte(l.data[last.start:last.end], '\n') >= 0 {
		return []byte(" ") // [{ over lines }, {ours}]: the bracket says nothing about commas
	}
	return lead
}

func (l List) leadAt(start int32) []byte {
	before := l.data[:start]
	return before[len(bytes.TrimRight(before, space)):]
}

// startOfBreak drops blank lines from a lead: one line break, with its carriage return, is enough.
func startOfBreak(lead []byte) int {
	at := bytes.LastIndexByte(lead, '\n')
	if at > 0 && lead[at-1] == '\r' {
		at--
	}
	return at
}
