package lock

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
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

// ask sends one request about tables of family inet, and returns the answers' attributes.
func (n *Namespace) ask(message int, flags netlink.HeaderFlags, about ...attr) ([]attrs, error) {
	request := netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | message),
			Flags: netlink.Request | flags,
		},
		// struct nfgenmsg: family, version 0, resource id 0.
		Data: append([]byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}, attrs(about).bytes()...),
	}
	messages, err := n.conn.Execute(request)
	if err != nil {
		return nil, err
	}
	var out []attrs
	for _, m := range messages {
		if m.Header.Flags&dumpInterrupted != 0 {
			return nil, errChanging
		}
		if len(m.Data) < 4 {
			continue
		}
		answer, err := attributes(m.Data[4:])
		if err != nil {
			return nil, err
		}
		out = append(out, answer)
	}
	return out, nil
}

// attributes reads what attrs.bytes writes. It copies nothing.
func attributes(data []byte) (attrs, error) {
	out := make(attrs, 0, 8)
	sorted := true
	for len(data) >= 4 {
		size, kind := int(binary.NativeEndian.Uint16(data)), binary.NativeEndian.Uint16(data[2:])
		if size < 4 || size > len(data) {
			return nil, fmt.Errorf("read netlink attributes: a length of %d, where there are %d bytes", size, len(data))
		}
		kind &^= unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER
		sorted = sorted && (len(out) == 0 || out[len(out)-1].kind <= kind)
		out = append(out, attr{kind, data[4:size:size]})
		data = data[min(len(data), (size+3)&^3):]
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("read netlink attributes: %d bytes are left", len(data))
	}
	if !sorted {
		slices.SortStableFunc(out, func(a, b attr) int { return int(a.kind) - int(b.kind) })
	}
	return out, nil
}

// bytes writes the attributes as netlink does: length and type in the machine's order, padded to four bytes (include/uapi/linux/netlink.h).
func (a attrs) bytes() []byte {
	size := 0
	for _, one := range a {
		size += 4 + (len(one.data)+3)&^3
	}
	out := make([]byte, 0, size)
	for _, one := range a {
		out = binary.NativeEndian.AppendUint16(out, uint16(4+len(one.data)))
		out = binary.NativeEndian.AppendUint16(out, one.kind)
		out = append(out, one.data...)
		out = append(out, padding[:-len(one.data)&3]...)
	}
	return out
}

var padding [3]byte

func (a attrs) get(kind uint16) []byte {
	for _, one := range a {
		if one.kind == kind {
			return one.data
		}
	}
	return nil
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
