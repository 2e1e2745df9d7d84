package lock

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// register is the one that every expression uses: NFT_REG_1, 16 bytes.
const register = 1

func table() *nftables.Table {
	return &nftables.Table{Name: Table, Family: nftables.TableFamilyINet}
}

var hooks = map[string]*nftables.ChainHook{
	"prerouting": nftables.ChainHookPrerouting, "input": nftables.ChainHookInput, "forward": nftables.ChainHookForward,
	"output": nftables.ChainHookOutput, "postrouting": nftables.ChainHookPostrouting,
}

var policies = map[verdict]nftables.ChainPolicy{accept: nftables.ChainPolicyAccept, drop: nftables.ChainPolicyDrop}

func (c chain) netlink(t *nftables.Table) *nftables.Chain {
	out := &nftables.Chain{Name: c.name, Table: t}
	if c.hook != "" {
		policy := policies[c.policy]
		out.Type, out.Hooknum, out.Priority = nftables.ChainTypeFilter, hooks[c.hook], nftables.ChainPriorityRef(nftables.ChainPriority(c.priority))
		out.Policy = &policy
	}
	return out
}

var setKinds = map[string]nftables.SetDatatype{
	kindFamily: nftables.TypeNFProto, kindAddr4: nftables.TypeIPAddr, kindAddr6: nftables.TypeIP6Addr, kindService: nftables.TypeInetService,
}

// netlink gives the set its id here: the library would count them in a variable that all connections share unguarded.
func (s set) netlink(t *nftables.Table, id uint32) *nftables.Set {
	return &nftables.Set{Table: t, ID: id, Name: s.name, KeyType: setKinds[s.kind], Interval: s.interval, HasTimeout: s.timeout}
}

// netlinkElements writes an interval as the kernel's tree keeps it: its first key, and the first key behind it as an end.
func (s set) netlinkElements() []nftables.SetElement {
	var out []nftables.SetElement
	for _, e := range s.elements {
		out = append(out, nftables.SetElement{Key: e.first})
		if e.end != nil {
			out = append(out, nftables.SetElement{Key: e.end, IntervalEnd: true})
		}
	}
	return out
}

func (r rule) netlink() ([]expr.Any, error) {
	var out []expr.Any
	for _, s := range r {
		encoded, err := encode(s)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", r.text(), err)
		}
		out = append(out, encoded...)
	}
	return out, nil
}

func encode(s statement) ([]expr.Any, error) {
	switch s := s.(type) {
	case loopback:
		key := expr.MetaKeyIIF
		if s.out {
			key = expr.MetaKeyOIF
		}
		return meta(key, equal(native(1))), nil
	case owner:
		key, op := expr.MetaKeySKUID, expr.CmpOpEq
		if s.group {
			key = expr.MetaKeySKGID
		}
		if s.not {
			op = expr.CmpOpNeq
		}
		return meta(key, &expr.Cmp{Op: op, Register: register, Data: native(s.id)}), nil
	case protocol:
		return meta(expr.MetaKeyL4PROTO, equal([]byte{byte(s)})), nil
	case leased:
		return meta(expr.MetaKeyNFPROTO, in(s.set)), nil
	case icmp6:
		return slices.Concat(meta(expr.MetaKeyNFPROTO, equal(familyIPv6.first)),
			meta(expr.MetaKeyL4PROTO, equal([]byte{unix.IPPROTO_ICMPV6})), transport(0, 1, equal([]byte{byte(s)}))), nil
	case port:
		return slices.Concat(meta(expr.MetaKeyL4PROTO, equal([]byte{byte(s.protocol)})),
			transport(2, 2, equal(binary.BigEndian.AppendUint16(nil, s.port)))), nil
	case ports:
		return slices.Concat(meta(expr.MetaKeyL4PROTO, equal([]byte{byte(tcp)})), transport(2, 2, in(s.set))), nil
	case to:
		return destination(s), nil
	default:
		return encodeConnection(s)
	}
}

func encodeConnection(s statement) ([]expr.Any, error) {
	switch s := s.(type) {
	case state:
		return []expr.Any{
			&expr.Ct{Register: register, Key: expr.CtKeySTATE},
			&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: native(uint32(s)), Xor: native(0)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: native(0)},
		}, nil
	case reply:
		// IP_CT_DIR_REPLY of include/uapi/linux/netfilter/nf_conntrack_tuple_common.h.
		return []expr.Any{&expr.Ct{Register: register, Key: expr.CtKeyDIRECTION}, equal([]byte{1})}, nil
	case mark:
		return []expr.Any{&expr.Ct{Register: register, Key: expr.CtKeyMARK}, equal(native(uint32(s)))}, nil
	case setMark:
		return []expr.Any{
			&expr.Immediate{Register: register, Data: native(uint32(s))},
			&expr.Ct{Register: register, SourceRegister: true, Key: expr.CtKeyMARK},
		}, nil
	case count:
		return []expr.Any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: string(s)}}, nil
	case verdict:
		if s == accept {
			return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}, nil
		}
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}, nil
	case reset:
		return []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}, nil
	case goTo:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: string(s)}}, nil
	}
	return nil, fmt.Errorf("no netlink form of %T", s)
}

func destination(s to) []expr.Any {
	family, offset, length := familyIPv4, uint32(16), uint32(4) // RFC 791 section 3.1
	if s.v6 {
		family, offset, length = familyIPv6, 24, 16 // RFC 8200 section 3
	}
	return slices.Concat(meta(expr.MetaKeyNFPROTO, equal(family.first)), []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length}, in(s.set),
	})
}

func meta(key expr.MetaKey, then expr.Any) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: register}, then}
}

func transport(offset, length uint32, then expr.Any) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length}, then}
}

func equal(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: data} }

func in(set string) expr.Any { return &expr.Lookup{SourceRegister: register, SetName: set} }

func native(value uint32) []byte { return binary.NativeEndian.AppendUint32(nil, value) }
