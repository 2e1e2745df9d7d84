package lock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Apply locks the namespace, without a lease: from its return on nothing passes but loopback. It is one transaction that creates the
// table exclusively, so that a namespace locked before fails with ErrLocked and stays as it is. What the kernel then holds is compared
// with what was meant: ErrDiffers means that the lock is there and is not what was meant; cut the namespace. The Record is what to
// compare with later.
func (n *Namespace) Apply(r Rules) (record Record, err error) {
	if len(r.chains) == 0 {
		return Record{}, fmt.Errorf("lock netns %q: the rules are empty; make them with Build", n.path)
	}
	if err := n.begin(); err != nil {
		return Record{}, err
	}
	defer func() { err = n.end("lock", err) }()
	chains, err := encodedChains(r.chains)
	if err != nil {
		return Record{}, err
	}
	echoed, err := n.create(r, chains)
	if err != nil {
		return Record{}, err
	}
	meant := r.meant(chains)
	// The table is new: all that is in it came with this transaction, and the kernel has written back each thing as it holds it. Nothing
	// is taken for what was meant that wasn't read from the kernel; where the echo says anything else, or not enough, all is read.
	if record, err = recordOf(echoed); err != nil || !record.holds(meant) {
		if record, err = n.read(); err != nil {
			return Record{}, err
		}
		if err := meant.plain().Compare(record.plain()); err != nil {
			return Record{}, err
		}
	}
	n.readAt, n.commitsThen = record.Generation, n.commits
	return record.withTexts(meant).sealed(), nil
}

func (n *Namespace) create(r Rules, chains []RecordedChain) (echoed []message, err error) {
	echoed, err = n.commit(r.messages(chains), unix.NLM_F_ECHO)
	if errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("%w: %w", ErrLocked, unix.EEXIST)
	}
	return echoed, err
}

// recordOf is what the kernel holds of a table that a transaction made, by its echo.
func recordOf(echoed []message) (Record, error) {
	var out Record
	var is attrs
	elements, rules := map[string][]attrs{}, map[string][]RecordedRule{}
	for _, m := range echoed {
		var err error
		if is, err = appendAttributes(is[:0], m.about); err != nil {
			return Record{}, err
		}
		switch m.kind & 0xff {
		case unix.NFT_MSG_NEWTABLE:
			out.Flags = be32(is.get(unix.NFTA_TABLE_FLAGS))
		case unix.NFT_MSG_NEWOBJ:
			out.Objects = append(out.Objects, objectText(is.text(unix.NFTA_OBJ_NAME), be32(is.get(unix.NFTA_OBJ_TYPE))))
		case unix.NFT_MSG_NEWSET:
			out.Sets = append(out.Sets, setOf(is))
		case unix.NFT_MSG_NEWSETELEM:
			set := is.text(unix.NFTA_SET_ELEM_LIST_SET)
			if elements[set], err = appendElements(elements[set], is); err != nil {
				return Record{}, err
			}
		case unix.NFT_MSG_NEWCHAIN:
			out.Chains = append(out.Chains, chainOf(is))
		case unix.NFT_MSG_NEWRULE:
			addRule(rules, is)
		case unix.NFT_MSG_NEWGEN:
			out.Generation = be32(is.get(unix.NFTA_GEN_ID))
		default:
			return Record{}, fmt.Errorf("an echo of kind %d", m.kind&0xff)
		}
	}
	if out.Generation == 0 {
		return Record{}, errors.New("an echo without a generation")
	}
	for i, s := range out.Sets {
		if s.Name != setTicket && s.Name != setAlive {
			for _, e := range elements[s.Name] {
				out.Sets[i].Elements = append(out.Sets[i].Elements, e.bytes())
			}
		}
	}
	for i, c := range out.Chains {
		out.Chains[i].Rules = rules[c.Name]
	}
	out.sort()
	return out, nil
}
