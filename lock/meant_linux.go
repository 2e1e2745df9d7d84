package lock

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// baseChain is NFT_CHAIN_BASE of include/uapi/linux/netfilter/nf_tables.h: the flag that the kernel gives a chain with a hook.
const baseChain = 1

// meant is the record that a kernel which holds exactly these rules gives, in its plain form.
func (r Rules) meant() (Record, error) {
	var out Record
	for _, c := range r.chains {
		recorded := RecordedChain{Name: c.name, Definition: c.meant().bytes()}
		for _, ru := range c.rules {
			expressions, err := ru.meant()
			if err != nil {
				return Record{}, fmt.Errorf("chain %s: rule %q: %w", c.name, ru.text(), err)
			}
			recorded.Rules = append(recorded.Rules, RecordedRule{ru.text(), expressions})
		}
		out.Chains = append(out.Chains, recorded)
	}
	for _, s := range r.sets {
		out.Sets = append(out.Sets, s.meant())
	}
	for _, name := range r.counters {
		out.Objects = append(out.Objects, objectText(name, unix.NFT_OBJECT_COUNTER))
	}
	slices.SortFunc(out.Chains, func(a, b RecordedChain) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Sets, func(a, b RecordedSet) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(out.Objects)
	return out.plain(), nil
}

func (c chain) meant() attrs {
	if c.hook == "" {
		return nil
	}
	hook := attrs{number(unix.NFTA_HOOK_HOOKNUM, uint32(*hooks[c.hook])), number(unix.NFTA_HOOK_PRIORITY, uint32(c.priority))}
	return attrs{
		{unix.NFTA_CHAIN_HOOK, hook.bytes()}, number(unix.NFTA_CHAIN_POLICY, uint32(policies[c.policy])),
		name(unix.NFTA_CHAIN_TYPE, "filter"), number(chainFlags, baseChain),
	}
}

func (s set) meant() RecordedSet {
	var flags uint32
	if s.interval {
		flags |= unix.NFT_SET_INTERVAL
	}
	if s.timeout {
		flags |= unix.NFT_SET_TIMEOUT
	}
	kind := setKinds[s.kind]
	out := RecordedSet{Name: s.name, Definition: attrs{
		number(unix.NFTA_SET_FLAGS, flags), number(unix.NFTA_SET_KEY_TYPE, kind.GetNFTMagic()), number(unix.NFTA_SET_KEY_LEN, kind.Bytes),
	}.bytes()}
	if s.name == setTicket || s.name == setAlive {
		return out
	}
	for _, e := range s.netlinkElements() {
		element := attrs{{unix.NFTA_SET_ELEM_KEY, attrs{{unix.NFTA_DATA_VALUE, e.Key}}.bytes()}}
		if e.IntervalEnd {
			element = append(element, number(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END))
		}
		out.Elements = append(out.Elements, element.bytes())
	}
	return out
}

func (r rule) meant() ([]byte, error) {
	exprs, err := r.netlink()
	if err != nil {
		return nil, err
	}
	var list attrs
	for _, e := range exprs {
		data, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err == nil {
			data, err = withoutNestedFlags(data)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, attr{unix.NFTA_LIST_ELEM, data})
	}
	return list.bytes(), nil
}

// withoutNestedFlags writes what the library sends as the kernel dumps it.
func withoutNestedFlags(data []byte) ([]byte, error) {
	raw, err := netlink.UnmarshalAttributes(data)
	if err != nil {
		return nil, fmt.Errorf("read netlink attributes: %w", err)
	}
	var out attrs
	for _, a := range raw {
		if a.Type&unix.NLA_F_NESTED != 0 {
			if a.Data, err = withoutNestedFlags(a.Data); err != nil {
				return nil, err
			}
		}
		out = append(out, attr{a.Type &^ unix.NLA_F_NESTED, a.Data})
	}
	return out.bytes(), nil
}

// plain is r in the form in which what was sent and what is dumped are equal if they mean the same: the attributes of an expression in
// the order of their types, and without those that are all zero, which the kernel adds or leaves out as it likes (the operation of
// bitwise, the flags of lookup).
func (r Record) plain() Record {
	out := r
	out.Chains, out.Sets = slices.Clone(r.Chains), slices.Clone(r.Sets)
	for i, c := range out.Chains {
		out.Chains[i].Definition, out.Chains[i].Rules = withoutZeros(c.Definition), slices.Clone(c.Rules)
		for j, ru := range c.Rules {
			out.Chains[i].Rules[j].Expressions = plainExpressions(ru.Expressions)
		}
	}
	for i, s := range out.Sets {
		out.Sets[i].Definition = withoutZeros(s.Definition)
	}
	return out
}

func withoutZeros(data []byte) []byte {
	all, err := attributes(data)
	if err != nil {
		return data
	}
	return slices.DeleteFunc(all, func(a attr) bool { return len(bytes.Trim(a.data, "\x00")) == 0 }).bytes()
}

func plainExpressions(list []byte) []byte {
	return eachExpression(list, func(name string, data attrs) attrs {
		if name == "objref" {
			for i := range data {
				data[i].data = bytes.TrimRight(data[i].data, "\x00") // the library leaves the name's end out
			}
		}
		return slices.DeleteFunc(data, func(a attr) bool { return len(bytes.Trim(a.data, "\x00")) == 0 })
	})
}

// maskCounters empties the counters, which change with every packet. Everything else stays as it was dumped.
func maskCounters(list []byte) []byte {
	if !bytes.Contains(list, []byte("counter\x00")) {
		return list
	}
	return eachExpression(list, func(name string, data attrs) attrs {
		if name == "counter" {
			return nil
		}
		return data
	})
}

// eachExpression changes the data of each expression in the list. One that can't be read stays as it is.
func eachExpression(list []byte, change func(name string, data attrs) attrs) []byte {
	all, err := attributes(list)
	if err != nil {
		return list
	}
	for i, one := range all {
		e, err := attributes(one.data)
		if err != nil {
			return list
		}
		data, err := attributes(e.get(unix.NFTA_EXPR_DATA))
		if err != nil {
			return list
		}
		kept := e.without(unix.NFTA_EXPR_DATA)
		all[i].data = append(kept, attr{unix.NFTA_EXPR_DATA, change(e.text(unix.NFTA_EXPR_NAME), data).bytes()}).bytes()
	}
	return all.bytes()
}

// withTexts adds to each rule read back what it was made from.
func (r Record) withTexts(rules Rules) Record {
	for _, c := range rules.chains {
		i := slices.IndexFunc(r.Chains, func(recorded RecordedChain) bool { return recorded.Name == c.name })
		for j := range c.rules {
			r.Chains[i].Rules[j].Text = c.rules[j].text()
		}
	}
	return r
}

func number(kind uint16, value uint32) attr {
	return attr{kind, binary.BigEndian.AppendUint32(nil, value)}
}

func objectText(name string, kind uint32) string { return fmt.Sprintf("%s type %d", name, kind) }
