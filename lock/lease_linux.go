package lock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Lease is how long a pod may send and receive after a renewal.
	Lease = 90 * time.Second
	// RenewEvery is how often the agent renews.
	RenewEvery = 5 * time.Second
)

// FirstLease uses up the ticket and lends for d, at least a millisecond, both families: one transaction. It fails with ErrTicketUsed
// if there was a first lease before, whatever became of it, and with ErrNotLocked.
func (n *Namespace) FirstLease(d time.Duration) error {
	return n.lend("lend a first lease", setTicket, encodedElements([]element{familyIPv4}), d, ErrTicketUsed)
}

// Renew lends for d from now on, at least a millisecond, both families: one transaction that deletes the lease and adds it anew. It
// never merely adds: that would extend nothing while there is a lease (the kernel keeps an element's timeout), and revive it when
// there is none. It fails with ErrExpired if the lease has run out or never was, and with ErrNotLocked.
func (n *Namespace) Renew(d time.Duration) error {
	return n.lend("renew the lease", setAlive, encodedElements([]element{familyIPv4, familyIPv6}), d, ErrExpired)
}

func (n *Namespace) lend(act, from string, used [][]byte, d time.Duration, missing error) (err error) {
	if d < time.Millisecond {
		return fmt.Errorf("%s in netns %q: for %v: not a millisecond or more, which is the kernel's unit", act, n.path, d)
	}
	if err := n.begin(); err != nil {
		return err
	}
	defer func() { err = n.end(act, err) }()
	_, err = n.commit([]message{deleteElements(from, used), newElements(setAlive, aliveFor(d))}, 0)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if locked, lookErr := n.locked(); lookErr != nil {
		return errors.Join(err, lookErr)
	} else if !locked {
		return fmt.Errorf("%w: %w", ErrNotLocked, unix.ENOENT)
	}
	return fmt.Errorf("%w: %w", missing, unix.ENOENT)
}

func aliveFor(d time.Duration) [][]byte {
	var out [][]byte
	for _, family := range []element{familyIPv4, familyIPv6} {
		timeout := binary.BigEndian.AppendUint64(nil, uint64(d.Milliseconds()))
		out = append(out, attrs{keyOf(family.first), {unix.NFTA_SET_ELEM_TIMEOUT, timeout}}.bytes())
	}
	return out
}

// Remaining is how long the lease still lasts, of both families the shorter. It fails with ErrExpired if there is none, with
// ErrDiffers if there is one that never ends, which nobody lent, and with ErrNotLocked.
func (n *Namespace) Remaining() (left time.Duration, err error) {
	if err := n.begin(); err != nil {
		return 0, err
	}
	defer func() { err = n.end("read the lease", err) }()
	elements, err := n.elements(setAlive)
	if errors.Is(err, unix.ENOENT) {
		return 0, fmt.Errorf("%w: %w", ErrNotLocked, unix.ENOENT)
	}
	if err != nil {
		return 0, err
	}
	if len(elements) != 2 {
		return 0, ErrExpired
	}
	left = time.Duration(math.MaxInt64)
	for _, e := range elements {
		expires := e.get(unix.NFTA_SET_ELEM_EXPIRATION)
		if expires == nil {
			return 0, fmt.Errorf("%w: the lease has no end", ErrDiffers)
		}
		left = min(left, time.Duration(be64(expires))*time.Millisecond)
	}
	return left, nil
}
