package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Change is one transaction of nftables in a namespace.
type Change struct {
	// Own reports that this Namespace made it. The kernel says which socket a transaction came through.
	Own bool
	// PID and Process are who made it, as seen from the initial PID namespace.
	PID     uint32
	Process string
}

// Monitor reports every change of any table in the namespace. That a lease ran out is no change.
type Monitor struct {
	n    *Namespace
	conn *netlink.Conn
}

// nftablesGroup is NFNLGRP_NFTABLES of include/uapi/linux/netfilter/nfnetlink.h.
const nftablesGroup = 7

// Monitor begins to listen. What changed before it is not reported: verify after it has returned. It lives on its own and is closed
// on its own.
func (n *Namespace) Monitor() (*Monitor, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: int(n.file.Fd()), Groups: 1 << (nftablesGroup - 1)})
	if err != nil {
		return nil, fmt.Errorf("monitor netns %q: %w", n.path, err)
	}
	return &Monitor{n, conn}, nil
}

// Close ends it; a Next that waits fails.
func (m *Monitor) Close() error { return m.conn.Close() }

// Next waits for the next change or the context's end. After any other error changes may have been missed: close, make a new
// Monitor, and verify.
func (m *Monitor) Next(ctx context.Context) (Change, error) {
	stop := context.AfterFunc(ctx, func() { _ = m.conn.SetReadDeadline(time.Unix(0, 1)) })
	defer stop()
	for {
		messages, err := m.conn.Receive()
		if err != nil {
			return Change{}, fmt.Errorf("monitor netns %q: %w", m.n.path, errors.Join(ctx.Err(), err))
		}
		var changes []Change
		for _, message := range messages {
			// Each transaction ends with its generation, whatever it held before.
			if message.Header.Type == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN && len(message.Data) >= 4 {
				change, err := m.change(message)
				if err != nil || !change.Own {
					return change, err
				}
				changes = append(changes, change)
			}
		}
		if len(changes) > 0 {
			return changes[0], nil
		}
	}
}

func (m *Monitor) change(message netlink.Message) (Change, error) {
	about, err := attributes(message.Data[4:])
	if err != nil {
		return Change{}, fmt.Errorf("monitor netns %q: %w", m.n.path, err)
	}
	return Change{
		Own:     message.Header.PID != 0 && message.Header.PID == m.n.port.Load(),
		PID:     be32(about.get(unix.NFTA_GEN_PROC_PID)),
		Process: about.text(unix.NFTA_GEN_PROC_NAME),
	}, nil
}
