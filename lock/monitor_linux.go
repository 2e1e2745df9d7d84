package lock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Change is what others did in a namespace: one transaction of nftables or, where none of them touched the lock, several.
type Change struct {
	// PID and Process are who made it, of several the last: the thread's number in the initial PID namespace, and its name
	// (net/netfilter/nf_tables_api.c: nf_tables_fill_gen_info).
	PID     uint32
	Process string
	// Lock means that it touched the lock's own table. What it changed there may have been changed back since, by the same transaction even.
	Lock bool
}

// Monitor reports every change of any table in the namespace that others make. That a lease ran out is no change.
//
// What goes through the Namespace's own socket is left out by the kernel: a renewal wakes nobody. The kernel gives each socket of a
// namespace an address of its own, and writes it into what it tells of a transaction; the Monitor holds that socket open, so that the
// address is nobody else's while it is left out. A Namespace that has to connect anew first turns its Monitors to the new socket. So
// whatever is heard was done by somebody else.
type Monitor struct {
	namespace *Namespace
	socket    *socket
	file      *os.File // the same, that can be waited for until a deadline and closed meanwhile
	conn      syscall.RawConn
	own       int // holds the socket whose changes are left out; the Namespace's mu guards it

	rest  []byte // received, and not looked at
	touch bool   // what was heard of the transaction whose end was not is about the lock's table
}

const (
	// nftablesGroup is NFNLGRP_NFTABLES of include/uapi/linux/netfilter/nfnetlink.h.
	nftablesGroup = 7
	// gather is for how long changes that leave the lock alone are taken for one: somebody may keep making them.
	gather = 100 * time.Millisecond
	// datagram is the most that the kernel tells in one datagram (include/linux/netlink.h: NLMSG_GOODSIZE).
	datagram = 8 << 10
	// backlog is what is kept of what was not received yet, tens of thousands of rules or elements: more than anybody makes who doesn't
	// mean to outrun a listener. Nothing of it is used while nothing is there.
	backlog = 4 << 20
)

// Monitor begins to listen. What changed before it is not reported: verify after it has returned. It lives on its own and is closed
// on its own.
func (n *Namespace) Monitor() (m *Monitor, err error) {
	if err := n.begin(); err != nil {
		return nil, err
	}
	defer func() { err = n.end("monitor", err) }()
	sockets, err := n.dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	m = &Monitor{namespace: n, socket: sockets[0], own: -1}
	if err := errors.Join(wrap("make a netlink socket one that doesn't block", unix.SetNonblock(m.socket.fd, true)), m.socket.makeRoom(0, backlog), m.leaveOut(n.netfilter)); err != nil {
		return nil, errors.Join(err, m.socket.close())
	}
	m.file = os.NewFile(uintptr(m.socket.fd), "monitor")
	m.conn, err = m.file.SyscallConn()
	if err == nil {
		err = wrap("listen to nf_tables", unix.SetsockoptInt(m.socket.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, nftablesGroup))
	}
	if err != nil {
		return nil, errors.Join(err, m.file.Close(), unix.Close(m.own))
	}
	n.monitors = append(n.monitors, m)
	return m, nil
}

// leaveOut has the kernel leave out what goes through this socket, and no longer what went through the one before.
func (m *Monitor) leaveOut(s *socket) error {
	filter, err := allBut(s.port)
	if err != nil {
		return err
	}
	own, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))} // of one layout
	if err := unix.SetsockoptSockFprog(m.socket.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
		return errors.Join(fmt.Errorf("filter a netlink socket: %w", err), unix.Close(own))
	}
	before := m.own
	m.own = own
	if before < 0 {
		return nil
	}
	return unix.Close(before)
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
func (m *Monitor) Close() error {
	n := m.namespace
	n.mu.Lock()
	defer n.mu.Unlock()
	n.monitors = slices.DeleteFunc(n.monitors, func(other *Monitor) bool { return other == m })
	return errors.Join(m.file.Close(), unix.Close(m.own))
}

// Next waits for the next change or the context's end. It returns at once for one that touched the lock, of which none is ever counted
// among others. After any error changes may have been missed: close, make a new Monitor, and verify. ErrOverrun means that they were.
func (m *Monitor) Next(ctx context.Context) (change Change, err error) {
	stop := context.AfterFunc(ctx, func() { _ = m.file.SetReadDeadline(time.Unix(0, 1)) })
	defer stop()
	for several := false; ; several = true {
		one, err := m.transaction()
		switch {
		case err == nil && one.Lock:
			return one, m.file.SetReadDeadline(time.Time{})
		case err == nil && !several:
			err = m.file.SetReadDeadline(time.Now().Add(gather))
		case several && errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil:
			return change, m.file.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return Change{}, fmt.Errorf("monitor netns %q: %w", m.namespace.path, errors.Join(ctx.Err(), err))
		}
		change = one
	}
}

// transaction is the next one. Each ends with its generation, and what it did is told before that, in as many datagrams as it takes
// (net/netfilter/nf_tables_api.c: nft_commit_notify, nf_tables_gen_notify).
func (m *Monitor) transaction() (Change, error) {
	for {
		for len(m.rest) < unix.SizeofNlMsghdr {
			var err error
			if m.rest, err = m.receive(); err != nil {
				return Change{}, err
			}
		}
		for len(m.rest) >= unix.SizeofNlMsghdr {
			message, _, rest, err := nextMessage(m.rest)
			m.rest = rest
			if err != nil {
				return Change{}, err
			}
			if message.kind>>8 != unix.NFNL_SUBSYS_NFTABLES || len(message.about) < 4 {
				continue
			}
			about, err := attributes(message.about[4:]) // behind struct nfgenmsg
			if err != nil {
				return Change{}, err
			}
			if message.kind&0xff != unix.NFT_MSG_NEWGEN {
				m.touch = m.touch || message.about[0] == unix.NFPROTO_INET && about.is(tableOf, Table)
				continue
			}
			change := Change{be32(about.get(unix.NFTA_GEN_PROC_PID)), about.text(unix.NFTA_GEN_PROC_NAME), m.touch}
			m.touch = false
			return change, nil
		}
	}
}

// receive waits for one datagram: nothing of it where it isn't the kernel's. Whoever may change the namespace may send the Monitor what
// looks like the kernel's errors.
func (m *Monitor) receive() (data []byte, err error) {
	waited := m.conn.Read(func(uintptr) (done bool) {
		buffer := make([]byte, datagram) // here, so that one who waits holds none
		var length int
		length, err = m.socket.receiveAny(buffer)
		data = buffer[:length]
		return !errors.Is(err, os.ErrDeadlineExceeded) // which is that nothing is there yet
	})
	switch {
	case waited != nil:
		return nil, waited
	case errors.Is(err, unix.ENOBUFS):
		return nil, fmt.Errorf("%w: %w", ErrOverrun, err)
	}
	return data, err
}

// tableOf is the name of the table in whatever is told of one: the first attribute of NFTA_TABLE_NAME, NFTA_CHAIN_TABLE,
// NFTA_RULE_TABLE, NFTA_SET_TABLE, NFTA_SET_ELEM_LIST_TABLE, NFTA_OBJ_TABLE and NFTA_FLOWTABLE_TABLE alike
// (include/uapi/linux/netfilter/nf_tables.h).
const tableOf = 1
