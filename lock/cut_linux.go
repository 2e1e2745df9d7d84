package lock

import (
	"errors"
	"fmt"
	"net"

	links "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// CutTable is the name of the table, of family inet, that a cut adds. It does not depend on the lock's own, which may be missing or
// have been tampered with.
const CutTable = "holdfast-cut"

// first is before every other chain and before the reassembly of fragments (-400).
const first = -500

// cutChains let nothing but loopback pass any hook.
func cutChains() []chain {
	in, out := rule{loopback{}, accept}, rule{loopback{out: true}, accept}
	return []chain{
		{"in", "prerouting", first, drop, []rule{in}},
		{"input", "input", first, drop, []rule{in}},
		{"forward", "forward", first, drop, nil},
		{"out", "output", first, drop, []rule{out}},
		{"postrouting", "postrouting", first, drop, []rule{out}},
	}
}

// Cut ends all traffic of the namespace for good, whatever state its lock is in: a table of its own that drops everything, no lease
// and no ticket, every link but lo down, no connection known, and the reason in the stamp. Each step is tried even if one before
// it failed; the error joins what did. A namespace cut before stays cut, with the reason it had.
func (n *Namespace) Cut(reason string) (err error) {
	if err := n.begin(); err != nil {
		return err
	}
	defer func() { err = n.end("cut", err) }()
	return errors.Join(
		wrap("add table "+CutTable, n.addCutTable()),
		wrap("end the lease", n.dropLease()),
		wrap("set the links down", n.linksDown()),
		wrap("flush the connections", n.flushConnections()),
		wrap("stamp", n.stampCut(reason)),
	)
}

// addCutTable replaces the table, should there be one, in one transaction: there is no moment without it.
func (n *Namespace) addCutTable() error {
	chains, err := encodedChains(cutChains())
	if err != nil {
		return err
	}
	_, err = n.commit(append([]message{
		newTable(CutTable, create), about(unix.NFT_MSG_DELTABLE, 0, name(unix.NFTA_TABLE_NAME, CutTable)), newTable(CutTable, exclusive),
	}, newChains(CutTable, chains)...), 0)
	return err
}

// dropLease empties the sets, so that neither a renewal nor a first lease can follow. Without a lock there is nothing to end.
func (n *Namespace) dropLease() error {
	empty := func(set string) message {
		return about(unix.NFT_MSG_DELSETELEM, 0, name(unix.NFTA_SET_ELEM_LIST_TABLE, Table), name(unix.NFTA_SET_ELEM_LIST_SET, set))
	}
	if _, err := n.commit([]message{empty(setTicket), empty(setAlive)}, 0); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func (n *Namespace) linksDown() error {
	h, err := n.handle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = h.Close() }()
	all, err := h.LinkList()
	if err != nil {
		return err
	}
	var errs []error
	for _, link := range all {
		if attrs := link.Attrs(); attrs.Index != loopbackIndex && attrs.Flags&net.FlagUp != 0 {
			errs = append(errs, wrap(attrs.Name, h.LinkSetDown(link)))
		}
	}
	return errors.Join(errs...)
}

func (n *Namespace) flushConnections() error {
	h, err := n.handle(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	return errors.Join(h.ConntrackTableFlush(links.ConntrackTable), h.Close())
}

func (n *Namespace) stampCut(reason string) error {
	if s, err := n.readStamp(); err == nil && s.Cut != "" {
		return nil
	}
	now, err := Now()
	if err != nil {
		return err
	}
	return n.stamp(cutStamp(reason, now))
}

func wrap(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", act, err)
}
