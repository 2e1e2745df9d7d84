package lock

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// baseChain is NFT_CHAIN_BASE of include/uapi/linux/netfilter/nf_tables.h: the flag that the kernel gives a chain with a hook.
const baseChain = 1

// meant is the record that a kernel which holds exactly these rules gives, but for its form (plain).
func (r Rules) meant(chains []RecordedChain) Record {
	out := Record{Chains: slices.Clone(chains), Objects: make([]string, 0, len(r.counters))}
	for i, c := range r.chains {
		if c.hook != "" {
			out.Chains[i].Definition = append(slices.Clip(chains[i].Definition), attrs{number(chainFlags, baseChain)}.bytes()...)
		}
	}
	for _, s := range r.sets {
		recorded := RecordedSet{Name: s.name, Definition: s.definition().bytes()}
		if s.name != setTicket && s.name != setAlive {
			recorded.Elements = encodedElements(s.elements)
		}
		out.Sets = append(out.Sets, recorded)
	}
	for _, name := range r.counters {
		out.Objects = append(out.Objects, objectText(name, unix.NFT_OBJECT_COUNTER))
	}
	out.sort()
	return out
}

// sort brings into one order what has none.
func (r Record) sort() {
	slices.SortFunc(r.Chains, func(a, b RecordedChain) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Sets, func(a, b RecordedSet) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range r.Sets {
		slices.SortFunc(s.Elements, bytes.Compare)
	}
	slices.Sort(r.Objects)
	slices.Sort(r.Flowtables)
}

// sealed names each rule's expressions by their digest: what was read is some kilobytes, and kept and sent for every pod.
func (r Record) sealed() Record {
	for _, c := range r.Chains {
		for i := range c.Rules {
			digest := sha256.Sum256(c.Rules[i].Expressions)
			c.Rules[i].Expressions = digest[:]
		}
	}
	return r
}

// holds reports whether the kernel's record is what was meant. It is Compare of the plain forms without making them: it may miss that
// two forms are equal, and then they are made; it doesn't take two for equal that are not.
func (r Record) holds(meant Record) bool {
	sameRules := func(a, b RecordedRule) bool { return sameExpressions(a.Expressions, b.Expressions) }
	return r.Flags == meant.Flags && slices.Equal(r.Objects, meant.Objects) && slices.Equal(r.Flowtables, meant.Flowtables) &&
		slices.EqualFunc(r.Chains, meant.Chains, func(a, b RecordedChain) bool {
			return a.Name == b.Name && sameAttributes(a.Definition, b.Definition, nil) && slices.EqualFunc(a.Rules, b.Rules, sameRules)
		}) &&
		slices.EqualFunc(r.Sets, meant.Sets, func(a, b RecordedSet) bool {
			return a.Name == b.Name && sameAttributes(a.Definition, b.Definition, nil) && slices.EqualFunc(a.Elements, b.Elements, bytes.Equal)
		}) || meant.plain().difference(r.plain()) == ""
}

// sameExpressions reports whether two lists have the same plain form, by way of sameAttributes.
func sameExpressions(a, b []byte) bool {
	return sameAttributes(a, b, func(_ uint16, a, b []byte) bool {
		objref := bytes.HasPrefix(a[min(4, len(a)):], []byte("objref\x00"))
		return sameAttributes(a, b, func(kind uint16, a, b []byte) bool {
			if kind != unix.NFTA_EXPR_DATA {
				return bytes.Equal(a, b)
			}
			return sameAttributes(a, b, func(_ uint16, a, b []byte) bool {
				return bytes.Equal(a, b) || objref && bytes.Equal(bytes.TrimRight(a, "\x00"), bytes.TrimRight(b, "\x00"))
			})
		})
	})
}

// sameAttributes reports whether two lists of attributes are equal, of equal kinds in equal order, but for those that are all zero.
func sameAttributes(a, b []byte, same func(kind uint16, a, b []byte) bool) bool {
	for {
		var x, y attr
		var okX, okY bool
		if x, a, okX = nextNonZero(a); !okX {
			return false
		}
		if y, b, okY = nextNonZero(b); !okY {
			return false
		}
		switch {
		case x.kind != y.kind:
			return false
		case x.data == nil && y.data == nil:
			return true
		case same == nil && !bytes.Equal(x.data, y.data), same != nil && !same(x.kind, x.data, y.data):
			return false
		}
	}
}

// nextNonZero takes the first attribute that is not all zero; the end is one without data. It is not ok if it can't be read.
func nextNonZero(list []byte) (a attr, rest []byte, ok bool) {
	for len(list) > 0 {
		a, rest, ok = nextAttribute(list)
		if !ok || !isZero(a.data) {
			return a, rest, ok
		}
		list = rest
	}
	return attr{}, nil, true
}

func isZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
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
	return slices.DeleteFunc(all, func(a attr) bool { return isZero(a.data) }).bytes()
}

func plainExpressions(list []byte) []byte {
	return eachExpression(list, func(name string, data attrs) attrs {
		if name == "objref" {
			for i := range data {
				data[i].data = bytes.TrimRight(data[i].data, "\x00") // the library leaves the name's end out
			}
		}
		return slices.DeleteFunc(data, func(a attr) bool { return isZero(a.data) })
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
func (r Record) withTexts(meant Record) Record {
	for i, c := range meant.Chains {
		for j := range c.Rules {
			r.Chains[i].Rules[j].Text = c.Rules[j].Text
		}
	}
	return r
}

func objectText(name string, kind uint32) string {
	return name + " type " + strconv.FormatUint(uint64(kind), 10)
}
