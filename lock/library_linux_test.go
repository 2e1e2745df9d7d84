package lock

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

func table() *nftables.Table {
	return &nftables.Table{Name: Table, Family: nftables.TableFamilyINet}
}

var libraryHooks = map[string]*nftables.ChainHook{
	"prerouting": nftables.ChainHookPrerouting, "input": nftables.ChainHookInput, "forward": nftables.ChainHookForward,
	"output": nftables.ChainHookOutput, "postrouting": nftables.ChainHookPostrouting,
}

var policies = map[verdict]nftables.ChainPolicy{accept: nftables.ChainPolicyAccept, drop: nftables.ChainPolicyDrop}

func (c chain) netlink(t *nftables.Table) *nftables.Chain {
	out := &nftables.Chain{Name: c.name, Table: t}
	if c.hook != "" {
		policy := policies[c.policy]
		out.Type, out.Hooknum, out.Priority = nftables.ChainTypeFilter, libraryHooks[c.hook], nftables.ChainPriorityRef(nftables.ChainPriority(c.priority))
		out.Policy = &policy
	}
	return out
}

func (r rule) netlink() ([]expr.Any, error) {
	var out []expr.Any
	for _, s := range r {
		encoded, err := libraryEncode(s)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", r.text(), err)
		}
		out = append(out, encoded...)
	}
	return out, nil
}

func libraryEncode(s statement) ([]expr.Any, error) {
	switch s := s.(type) {
	case loopback:
		key := expr.MetaKeyIIF
		if s.out {
			key = expr.MetaKeyOIF
		}
		return libraryMeta(key, libraryEqual(native(1))), nil
	case owner:
		key, op := expr.MetaKeySKUID, expr.CmpOpEq
		if s.group {
			key = expr.MetaKeySKGID
		}
		if s.not {
			op = expr.CmpOpNeq
		}
		return libraryMeta(key, &expr.Cmp{Op: op, Register: register, Data: native(s.id)}), nil
	case protocol:
		return libraryMeta(expr.MetaKeyL4PROTO, libraryEqual([]byte{byte(s)})), nil
	case leased:
		return libraryMeta(expr.MetaKeyNFPROTO, libraryIn(s.set)), nil
	case icmp6:
		return slices.Concat(libraryMeta(expr.MetaKeyNFPROTO, libraryEqual(familyIPv6.first)),
			libraryMeta(expr.MetaKeyL4PROTO, libraryEqual([]byte{unix.IPPROTO_ICMPV6})), libraryTransport(0, 1, libraryEqual([]byte{byte(s)}))), nil
	case port:
		return slices.Concat(libraryMeta(expr.MetaKeyL4PROTO, libraryEqual([]byte{byte(s.protocol)})),
			libraryTransport(2, 2, libraryEqual(binary.BigEndian.AppendUint16(nil, s.port)))), nil
	case ports:
		return slices.Concat(libraryMeta(expr.MetaKeyL4PROTO, libraryEqual([]byte{byte(tcp)})), libraryTransport(2, 2, libraryIn(s.set))), nil
	case noSYN:
		return slices.Concat(libraryMeta(expr.MetaKeyL4PROTO, libraryEqual([]byte{byte(tcp)})), []expr.Any{
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
			&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 1, Mask: []byte{2}, Xor: []byte{0}}, libraryEqual([]byte{0}),
		}), nil
	case to:
		return libraryDestination(s), nil
	default:
		return libraryEncodeConnection(s)
	}
}

func libraryEncodeConnection(s statement) ([]expr.Any, error) {
	switch s := s.(type) {
	case state:
		return []expr.Any{
			&expr.Ct{Register: register, Key: expr.CtKeySTATE},
			&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: native(uint32(s)), Xor: native(0)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: native(0)},
		}, nil
	case direction:
		return []expr.Any{&expr.Ct{Register: register, Key: expr.CtKeyDIRECTION}, libraryEqual([]byte{byte(s)})}, nil
	case marked:
		return []expr.Any{&expr.Ct{Register: register, Key: expr.CtKeyMARK}, &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: native(0)}}, nil
	case mark:
		return []expr.Any{&expr.Ct{Register: register, Key: expr.CtKeyMARK}, libraryEqual(native(uint32(s)))}, nil
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

func libraryDestination(s to) []expr.Any {
	family, offset, length := familyIPv4, uint32(16), uint32(4) // RFC 791 section 3.1
	if s.v6 {
		family, offset, length = familyIPv6, 24, 16 // RFC 8200 section 3
	}
	return slices.Concat(libraryMeta(expr.MetaKeyNFPROTO, libraryEqual(family.first)), []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length}, libraryIn(s.set),
	})
}

func libraryMeta(key expr.MetaKey, then expr.Any) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: register}, then}
}

func libraryTransport(offset, length uint32, then expr.Any) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length}, then}
}

func libraryEqual(data []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: data}
}

func libraryIn(set string) expr.Any { return &expr.Lookup{SourceRegister: register, SetName: set} }

// addChains is newChains by the library.
func (p *pod) addChains(t *nftables.Table, chains []chain) error {
	for _, c := range chains {
		p.nft.AddChain(c.netlink(t))
	}
	for _, c := range chains {
		for _, r := range c.rules {
			exprs, err := r.netlink()
			if err != nil {
				return err
			}
			p.nft.AddRule(&nftables.Rule{Table: t, Chain: c.netlink(t), Exprs: exprs})
		}
	}
	return nil
}
