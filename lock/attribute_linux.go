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

func attributes(data []byte) (attrs, error) {
	raw, err := netlink.UnmarshalAttributes(data)
	if err != nil {
		return nil, fmt.Errorf("read netlink attributes: %w", err)
	}
	var out attrs
	for _, a := range raw {
		out = append(out, attr{a.Type &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER), a.Data})
	}
	slices.SortStableFunc(out, func(a, b attr) int { return int(a.kind) - int(b.kind) })
	return out, nil
}

// bytes writes the attributes as netlink does: length and type in the machine's order, padded to four bytes (include/uapi/linux/netlink.h).
func (a attrs) bytes() []byte {
	var out []byte
	for _, one := range a {
		out = binary.NativeEndian.AppendUint16(out, uint16(4+len(one.data)))
		out = binary.NativeEndian.AppendUint16(out, one.kind)
		out = append(out, one.data...)
		out = append(out, make([]byte, -len(one.data)&3)...)
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
