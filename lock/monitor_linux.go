package lock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Change is one transaction of nftables in a namespace.
type Change struct {
	// PID and Process are who made it, as seen from the initial PID namespace.
	PID     uint32
	Process string
}

// Monitor reports every change of any table in the namespace that others make. That a lease ran out is no change.
//
// What goes through the Namespace's own socket is left out by the kernel: a renewal wakes nobody. The kernel gives each socket of a
// namespace an address of its own, and writes it into what it tells of a transaction; the Monitor holds that socket open, so that the
// address is nobody else's while it listens. A Namespace that had to connect anew has another, and is reported as others are, which
// Changed tells from them.
type Monitor struct {
	path string
	own  int // holds the socket whose changes are left out
	conn *netlink.Conn
}

// nftablesGroup is NFNLGRP_NFTABLES of include/uapi/linux/netfilter/nfnetlink.h.
const nftablesGroup = 7

// Monitor begins to listen. What changed before it is not reported: verify after it has returned. It lives on its own and is closed
// on its own.
func (n *Namespace) Monitor() (m *Monitor, err error) {
	if err := n.begin(); err != nil {
		return nil, err
	}
	defer func() { err = n.end("monitor", err) }()
	filter, err := allBut(n.netfilter.port)
	if err != nil {
		return nil, err
	}
	own, err := unix.FcntlInt(uintptr(n.netfilter.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: int(n.file.Fd()), Groups: 1 << (nftablesGroup - 1)})
	if err != nil {
		return nil, errors.Join(err, unix.Close(own))
	}
	m = &Monitor{n.path, own, conn}
	if err := conn.SetBPF(filter); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// allBut passes what was not sent on behalf of that address: field nlmsg_pid of struct nlmsghdr, at 12, in the machine's order, which
// a filter loads as big endian. The kernel applies it to each datagram before it wakes a listener (net/netlink/af_netlink.c:
// do_one_broadcast), and no datagram tells of two transactions (net/netfilter/nf_tables_api.c: nft_commit_notify, nf_tables_gen_notify).
func allBut(port uint32) ([]bpf.RawInstruction, error) {
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(native(port)), SkipTrue: 1},
		bpf.RetConstant{Val: math.MaxUint32},
		bpf.RetConstant{Val: 0},
	})
}

// Close ends it; a Next that waits fails.
func (m *Monitor) Close() error { return errors.Join(m.conn.Close(), unix.Close(m.own)) }

// Next waits for the next change or the context's end. After any error changes may have been missed: close, make a new Monitor, and
// verify.
func (m *Monitor) Next(ctx context.Context) (Change, error) {
	stop := context.AfterFunc(ctx, func() { _ = m.conn.SetReadDeadline(time.Unix(0, 1)) })
	defer stop()
	for {
		messages, err := m.conn.Receive()
		if err != nil {
			return Change{}, fmt.Errorf("monitor netns %q: %w", m.path, errors.Join(ctx.Err(), err))
		}
		for _, message := range messages {
			// Each transaction ends with its generation, whatever it held before.
			if message.Header.Type != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN || len(message.Data) < 4 {
				continue
			}
			about, err := attributes(message.Data[4:])
			if err != nil {
				return Change{}, fmt.Errorf("monitor netns %q: %w", m.path, err)
			}
			return Change{PID: be32(about.get(unix.NFTA_GEN_PROC_PID)), Process: about.text(unix.NFTA_GEN_PROC_NAME)}, nil
		}
	}
}
