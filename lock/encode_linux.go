package lock

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// What is sent is written here as the kernel writes it when it is read, so that the two need only be laid side by side: attributes in
// the kernel's order, and none with the flag NLA_F_NESTED, which nf_tables neither asks for nor sets. The tests compare it with what
// github.com/google/nftables writes, which would do for all but the time that it takes.

// The hooks of include/uapi/linux/netfilter.h.
var hooks = map[string]uint32{
	"prerouting": unix.NF_INET_PRE_ROUTING, "input": unix.NF_INET_LOCAL_IN, "forward": unix.NF_INET_FORWARD,
	"output": unix.NF_INET_LOCAL_OUT, "postrouting": unix.NF_INET_POST_ROUTING,
}

// The verdicts of include/uapi/linux/netfilter.h and nf_tables.h.
const (
	verdictDrop   = 0
	verdictAccept = 1
	verdictGoTo   = 1<<32 - 4 // NFT_GOTO, which is -4
)

var verdicts = map[verdict]uint32{drop: verdictDrop, accept: verdictAccept}

// A kind of set's key as nft numbers it (nftables' include/datatype.h: enum datatypes), and its length. The kernel keeps the number and
// makes nothing of it.
type kindOfKey struct{ number, bytes uint32 }

var kindsOfKey = map[string]kindOfKey{kindFamily: {2, 1}, kindAddr4: {7, 4}, kindAddr6: {8, 16}, kindService: {13, 2}}

// messages make the table and everything in it, the chains as they were encoded. They fail where there is one of its name.
func (r Rules) messages(chains []RecordedChain) []message {
	out := append(make([]message, 0, 128), newTable(Table, exclusive))
	for _, name := range r.counters {
		out = append(out, newCounter(name))
	}
	for i, s := range r.sets {
		out = append(out, s.messages(uint32(i+1))...)
	}
	return append(out, newChains(Table, chains)...)
}

func newTable(table string, flags uint16) message {
	return about(unix.NFT_MSG_NEWTABLE, flags, name(unix.NFTA_TABLE_NAME, table), number(unix.NFTA_TABLE_FLAGS, 0))
}

func newCounter(counter string) message {
	return about(unix.NFT_MSG_NEWOBJ, create, name(unix.NFTA_OBJ_TABLE, Table), name(unix.NFTA_OBJ_NAME, counter),
		number(unix.NFTA_OBJ_TYPE, unix.NFT_OBJECT_COUNTER), attr{kind: unix.NFTA_OBJ_DATA})
}

// elementsAtOnce keeps the length of a message's elements far from what an attribute can hold, 64 kB.
const elementsAtOnce = 512

// bigEndianKeys tells nft how to print a set's intervals: NFTNL_UDATA_SET_KEYBYTEORDER, which is 0, of 4 bytes, is 2 (libnftnl's
// include/libnftnl/udata.h, nftables' include/datatype.h). The kernel only keeps it.
var bigEndianKeys = append([]byte{0, 4}, native(2)...)

// messages make the set and fill it. The number tells it from the others of the transaction.
func (s set) messages(id uint32) []message {
	is := append(append(attrs{name(unix.NFTA_SET_TABLE, Table), name(unix.NFTA_SET_NAME, s.name)}, s.definition()...), number(unix.NFTA_SET_ID, id))
	if s.interval {
		is = append(is, attr{unix.NFTA_SET_USERDATA, bigEndianKeys})
	}
	out := []message{toNFTables(unix.NFT_MSG_NEWSET, create, is.bytes())}
	for some := range slices.Chunk(s.elements, elementsAtOnce) {
		out = append(out, newElements(s.name, encodedElements(some)))
	}
	return out
}

func (s set) definition() attrs {
	var flags uint32
	if s.interval {
		flags |= unix.NFT_SET_INTERVAL
	}
	if s.timeout {
		flags |= unix.NFT_SET_TIMEOUT
	}
	kind := kindsOfKey[s.kind]
	return attrs{
		number(unix.NFTA_SET_FLAGS, flags), number(unix.NFTA_SET_KEY_TYPE, kind.number), number(unix.NFTA_SET_KEY_LEN, kind.bytes),
	}
}

// encodedElements writes an interval as the kernel's tree keeps it: its first key, and the first key behind it as an end.
func encodedElements(elements []element) [][]byte {
	out := make([][]byte, 0, 2*len(elements))
	for _, e := range elements {
		out = append(out, elementRoom().value(unix.NFTA_SET_ELEM_KEY, e.first...))
		if e.end != nil {
			out = append(out, elementRoom().value(unix.NFTA_SET_ELEM_KEY, e.end...).number(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END))
		}
	}
	return out
}

// elementRoom is for an element with an IPv6 address, and its flags.
func elementRoom() list { return make(list, 0, 32) }

func keyOf(key []byte) attr { return nested(unix.NFTA_SET_ELEM_KEY, attr{unix.NFTA_DATA_VALUE, key}) }

func newElements(set string, elements [][]byte) message {
	return withElements(unix.NFT_MSG_NEWSETELEM, create, set, elements)
}

func deleteElements(set string, elements [][]byte) message {
	return withElements(unix.NFT_MSG_DELSETELEM, 0, set, elements)
}

func withElements(kind int, flags uint16, set string, elements [][]byte) message {
	var list attrs
	for _, e := range elements {
		list = append(list, attr{unix.NFTA_LIST_ELEM, e})
	}
	return about(kind, flags, name(unix.NFTA_SET_ELEM_LIST_TABLE, Table), name(unix.NFTA_SET_ELEM_LIST_SET, set),
		attr{unix.NFTA_SET_ELEM_LIST_ELEMENTS, list.bytes()})
}

// newChains makes every chain before any rule, since a rule may go to a later one.
func newChains(table string, chains []RecordedChain) []message {
	var out []message
	for _, c := range chains {
		is := append(attrs{name(unix.NFTA_CHAIN_TABLE, table), name(unix.NFTA_CHAIN_NAME, c.Name)}.bytes(), c.Definition...)
		out = append(out, toNFTables(unix.NFT_MSG_NEWCHAIN, create, is))
	}
	for _, c := range chains {
		for _, r := range c.Rules {
			is := make(list, 0, len(r.Expressions)+64).name(unix.NFTA_RULE_TABLE, table).name(unix.NFTA_RULE_CHAIN, c.Name)
			out = append(out, toNFTables(unix.NFT_MSG_NEWRULE, last, is.data(unix.NFTA_RULE_EXPRESSIONS, r.Expressions...)))
		}
	}
	return out
}

func encodedChains(chains []chain) ([]RecordedChain, error) {
	out := make([]RecordedChain, 0, len(chains))
	written := make(list, 0, 16<<10) // all expressions, one rule's behind the other's
	for _, c := range chains {
		encoded := RecordedChain{Name: c.name, Definition: c.definition().bytes(), Rules: make([]RecordedRule, 0, len(c.rules))}
		for _, r := range c.rules {
			begin := len(written)
			var err error
			if written, err = written.rule(r); err != nil {
				return nil, fmt.Errorf("chain %s: %w", c.name, err)
			}
			encoded.Rules = append(encoded.Rules, RecordedRule{r.text(), written[begin:len(written):len(written)]})
		}
		out = append(out, encoded)
	}
	return out, nil
}

func (c chain) definition() attrs {
	if c.hook == "" {
		return nil
	}
	return attrs{
		nested(unix.NFTA_CHAIN_HOOK, number(unix.NFTA_HOOK_HOOKNUM, hooks[c.hook]), number(unix.NFTA_HOOK_PRIORITY, uint32(c.priority))),
		number(unix.NFTA_CHAIN_POLICY, verdicts[c.policy]), name(unix.NFTA_CHAIN_TYPE, "filter"),
	}
}
