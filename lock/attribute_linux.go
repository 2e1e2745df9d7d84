package lock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// attrs are the attributes of a message or of another attribute, in the order of their types: a list keeps its order, since its
// types are all equal.
type attrs []attr

// An attr's kind is without the flag NLA_F_NESTED, which the library sets and the kernel does not.
type attr struct {
	kind uint16
	data []byte
}

// attributes reads what attrs.bytes writes. It copies nothing.
func attributes(data []byte) (attrs, error) {
	count := 0
	for rest, ok := data, true; ok && len(rest) > 0; count++ {
		_, rest, ok = nextAttribute(rest)
	}
	return appendAttributes(make(attrs, 0, count), data)
}

// appendAttributes is attributes into out, which is empty.
func appendAttributes(out attrs, data []byte) (attrs, error) {
	sorted := true
	for len(data) > 0 {
		a, rest, ok := nextAttribute(data)
		if !ok {
			return nil, fmt.Errorf("read netlink attributes: %x is none", data[:min(len(data), 4)])
		}
		sorted = sorted && (len(out) == 0 || out[len(out)-1].kind <= a.kind)
		out, data = append(out, a), rest
	}
	if !sorted {
		slices.SortStableFunc(out, func(a, b attr) int { return int(a.kind) - int(b.kind) })
	}
	return out, nil
}

func nextAttribute(data []byte) (a attr, rest []byte, ok bool) {
	if len(data) < 4 {
		return attr{}, nil, false
	}
	size, kind := int(binary.NativeEndian.Uint16(data)), binary.NativeEndian.Uint16(data[2:])
	if size < 4 || size > len(data) {
		return attr{}, nil, false
	}
	return attr{kind &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER), data[4:size:size]}, data[min(len(data), (size+3)&^3):], true
}

// bytes writes the attributes as netlink does: length and type in the machine's order, padded to four bytes (include/uapi/linux/netlink.h).
func (a attrs) bytes() []byte {
	size := 0
	for _, one := range a {
		size += 4 + (len(one.data)+3)&^3
	}
	out := make(list, 0, size)
	for _, one := range a {
		out = out.data(one.kind, one.data...)
	}
	return out
}

func (a attrs) get(kind uint16) []byte {
	for _, one := range a {
		if one.kind == kind {
			return one.data
		}
	}
	return nil
}

// is reports whether the attribute is the text, without making one.
func (a attrs) is(kind uint16, text string) bool {
	return string(bytes.TrimRight(a.get(kind), "\x00")) == text
}

func (a attrs) text(kind uint16) string { return strings.TrimRight(string(a.get(kind)), "\x00") }

func (a attrs) only(kinds ...uint16) attrs {
	return slices.DeleteFunc(slices.Clone(a), func(one attr) bool { return !slices.Contains(kinds, one.kind) })
}

func (a attrs) without(kinds ...uint16) attrs {
	return slices.DeleteFunc(slices.Clone(a), func(one attr) bool { return slices.Contains(kinds, one.kind) })
}

func name(kind uint16, text string) attr { return attr{kind, append([]byte(text), 0)} }

func be32(data []byte) uint32 {
	if len(data) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(data)
}

func number(kind uint16, value uint32) attr {
	return attr{kind, binary.BigEndian.AppendUint32(nil, value)}
}

func nested(kind uint16, in ...attr) attr { return attr{kind, attrs(in).bytes()} }
