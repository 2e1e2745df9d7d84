package lock

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// register is the one that every expression uses: NFT_REG_1, 16 bytes.
const register = 1

// rule writes the rule's expressions.
func (l list) rule(r rule) (list, error) {
	for _, s := range r {
		before := len(l)
		if l = l.statement(s); len(l) == before {
			return nil, fmt.Errorf("rule %q: no netlink form of %T", r.text(), s)
		}
	}
	return l, nil
}

// statement writes nothing for a kind that it doesn't know.
func (l list) statement(s statement) list {
	switch s := s.(type) {
	case loopback:
		if s.out {
			return l.meta(unix.NFT_META_OIF).equal(native(1)...)
		}
		return l.meta(unix.NFT_META_IIF).equal(native(1)...)
	case owner:
		key, op := uint32(unix.NFT_META_SKUID), uint32(unix.NFT_CMP_EQ)
		if s.group {
			key = unix.NFT_META_SKGID
		}
		if s.not {
			op = unix.NFT_CMP_NEQ
		}
		return l.meta(key).compare(op, native(s.id)...)
	case protocol:
		return l.protocol(s)
	case leased:
		return l.meta(unix.NFT_META_NFPROTO).in(s.set)
	case icmp6:
		return l.family(familyIPv6).protocol(unix.IPPROTO_ICMPV6).payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1).equal(byte(s))
	case port:
		return l.protocol(s.protocol).destinationPort().equal(byte(s.port>>8), byte(s.port))
	case ports:
		return l.protocol(tcp).destinationPort().in(s.set)
	case noSYN:
		// RFC 9293 section 3.1: the flags are at 13, SYN is the second of them.
		return l.protocol(tcp).payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 13, 1).mask(2).equal(0)
	case to:
		if s.v6 {
			return l.family(familyIPv6).payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 24, 16).in(s.set) // RFC 8200 section 3
		}
		return l.family(familyIPv4).payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 16, 4).in(s.set) // RFC 791 section 3.1
	default:
		return l.connection(s)
	}
}

func (l list) connection(s statement) list {
	switch s := s.(type) {
	case state:
		return l.ct(unix.NFT_CT_STATE).mask(native(uint32(s))...).compare(unix.NFT_CMP_NEQ, native(0)...)
	case direction:
		return l.ct(unix.NFT_CT_DIRECTION).equal(byte(s))
	case marked:
		return l.ct(unix.NFT_CT_MARK).compare(unix.NFT_CMP_NEQ, native(0)...)
	case mark:
		return l.ct(unix.NFT_CT_MARK).equal(native(uint32(s))...)
	case setMark:
		return l.load(uint32(s)).expression("ct", func(l list) list {
			return l.number(unix.NFTA_CT_SREG, register).number(unix.NFTA_CT_KEY, unix.NFT_CT_MARK)
		})
	case count:
		return l.expression("objref", func(l list) list {
			return l.name(unix.NFTA_OBJREF_IMM_NAME, string(s)).number(unix.NFTA_OBJREF_IMM_TYPE, unix.NFT_OBJECT_COUNTER)
		})
	case verdict:
		return l.verdict(verdicts[s], "")
	case goTo:
		return l.verdict(verdictGoTo, string(s))
	case reset:
		return l.expression("reject", func(l list) list {
			return l.number(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_TCP_RST).data(unix.NFTA_REJECT_ICMP_CODE, 0)
		})
	}
	return l
}

func (l list) expression(kind string, data func(list) list) list {
	return l.nested(unix.NFTA_LIST_ELEM, func(l list) list {
		return l.name(unix.NFTA_EXPR_NAME, kind).nested(unix.NFTA_EXPR_DATA, data)
	})
}

func (l list) value(kind uint16, data ...byte) list {
	return l.nested(kind, func(l list) list { return l.data(unix.NFTA_DATA_VALUE, data...) })
}

func (l list) meta(key uint32) list {
	return l.expression("meta", func(l list) list {
		return l.number(unix.NFTA_META_KEY, key).number(unix.NFTA_META_DREG, register)
	})
}

func (l list) family(f element) list { return l.meta(unix.NFT_META_NFPROTO).equal(f.first...) }

func (l list) protocol(p protocol) list { return l.meta(unix.NFT_META_L4PROTO).equal(byte(p)) }

func (l list) ct(key uint32) list {
	return l.expression("ct", func(l list) list {
		return l.number(unix.NFTA_CT_DREG, register).number(unix.NFTA_CT_KEY, key)
	})
}

func (l list) payload(base, offset, length uint32) list {
	return l.expression("payload", func(l list) list {
		return l.number(unix.NFTA_PAYLOAD_DREG, register).number(unix.NFTA_PAYLOAD_BASE, base).
			number(unix.NFTA_PAYLOAD_OFFSET, offset).number(unix.NFTA_PAYLOAD_LEN, length)
	})
}

// destinationPort is at the same place in TCP (RFC 9293) and UDP (RFC 768).
func (l list) destinationPort() list { return l.payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2) }

func (l list) compare(op uint32, data ...byte) list {
	return l.expression("cmp", func(l list) list {
		return l.number(unix.NFTA_CMP_SREG, register).number(unix.NFTA_CMP_OP, op).value(unix.NFTA_CMP_DATA, data...)
	})
}

func (l list) equal(data ...byte) list { return l.compare(unix.NFT_CMP_EQ, data...) }

func (l list) in(set string) list {
	return l.expression("lookup", func(l list) list {
		return l.name(unix.NFTA_LOOKUP_SET, set).number(unix.NFTA_LOOKUP_SREG, register)
	})
}

func (l list) mask(bits ...byte) list {
	return l.expression("bitwise", func(l list) list {
		return l.number(unix.NFTA_BITWISE_SREG, register).number(unix.NFTA_BITWISE_DREG, register).number(unix.NFTA_BITWISE_LEN, uint32(len(bits))).
			value(unix.NFTA_BITWISE_MASK, bits...).value(unix.NFTA_BITWISE_XOR, make([]byte, len(bits))...)
	})
}

func (l list) load(value uint32) list {
	return l.expression("immediate", func(l list) list {
		return l.number(unix.NFTA_IMMEDIATE_DREG, register).value(unix.NFTA_IMMEDIATE_DATA, native(value)...)
	})
}

// verdict is an immediate in the verdict's register.
func (l list) verdict(code uint32, chain string) list {
	return l.expression("immediate", func(l list) list {
		return l.number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT).nested(unix.NFTA_IMMEDIATE_DATA, func(l list) list {
			return l.nested(unix.NFTA_DATA_VERDICT, func(l list) list {
				if l = l.number(unix.NFTA_VERDICT_CODE, code); chain != "" {
					l = l.name(unix.NFTA_VERDICT_CHAIN, chain)
				}
				return l
			})
		})
	})
}

func native(value uint32) []byte { return binary.NativeEndian.AppendUint32(nil, value) }
