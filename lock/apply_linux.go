package lock

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Apply locks the namespace, without a lease: from its return on nothing passes but loopback. It is one transaction that creates the
// table exclusively, so that a namespace locked before fails with ErrLocked and stays as it is. Afterwards it reads the kernel back
// and compares: ErrDiffers means that the lock is there and is not what was meant; cut the namespace. The Record is what to compare
// with later.
func (n *Namespace) Apply(r Rules) (record Record, err error) {
	if len(r.chains) == 0 {
		return Record{}, fmt.Errorf("lock netns %q: the rules are empty; make them with Build", n.path)
	}
	if err := n.begin(); err != nil {
		return Record{}, err
	}
	defer func() { err = n.end("lock", err) }()
	if err := n.create(r); err != nil {
		return Record{}, err
	}
	if record, err = n.read(); err != nil {
		return Record{}, err
	}
	meant, err := r.meant()
	if err != nil {
		return Record{}, err
	}
	if err := meant.Compare(record.plain()); err != nil {
		return Record{}, err
	}
	return record.withTexts(r), nil
}

func (n *Namespace) create(r Rules) error {
	t := n.nft.CreateTable(table())
	for _, name := range r.counters {
		n.nft.AddObj(&nftables.NamedObj{Table: t, Name: name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
	}
	for i, s := range r.sets {
		if err := n.nft.AddSet(s.netlink(t, uint32(i+1)), s.netlinkElements()); err != nil {
			return fmt.Errorf("set %s: %w", s.name, err)
		}
	}
	if err := n.addChains(t, r.chains); err != nil {
		return err
	}
	err := n.commit()
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%w: %w", ErrLocked, unix.EEXIST)
	}
	return err
}

// addChains adds every chain before any rule, since a rule may go to a later one.
func (n *Namespace) addChains(t *nftables.Table, chains []chain) error {
	for _, c := range chains {
		n.nft.AddChain(c.netlink(t))
	}
	for _, c := range chains {
		for _, r := range c.rules {
			exprs, err := r.netlink()
			if err != nil {
				return fmt.Errorf("chain %s: %w", c.name, err)
			}
			n.nft.AddRule(&nftables.Rule{Table: t, Chain: c.netlink(t), Exprs: exprs})
		}
	}
	return nil
}
