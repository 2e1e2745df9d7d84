package lock

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A message is one request to nf_tables about family inet, or one answer: what is behind the header, with the header's kind and flags.
type message struct {
	kind, flags uint16
	about       []byte
}

const (
	// create makes what a message is about, exclusive fails where it exists, last puts a rule behind the others.
	create    = unix.NLM_F_CREATE
	exclusive = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	last      = unix.NLM_F_CREATE | unix.NLM_F_APPEND

	// headers is the size of struct nlmsghdr and of the struct nfgenmsg behind it.
	headers = unix.SizeofNlMsghdr + 4
)

func about(message int, flags uint16, is ...attr) message {
	return toNFTables(message, flags, attrs(is).bytes())
}

func toNFTables(kind int, flags uint16, is []byte) message {
	return message{uint16(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), flags, is}
}

// append writes m as struct nlmsghdr, struct nfgenmsg (family, version 0, resource) and attributes.
func (m message) append(out []byte, family uint8, resource uint16, sequence uint32) []byte {
	out = header(out, 4+len(m.about), m.kind, m.flags, sequence)
	out = binary.BigEndian.AppendUint16(append(out, family, unix.NFNETLINK_V0), resource)
	return append(out, m.about...) // whole attributes, so padded
}

// errMessage is the kernel's refusal of one message of a transaction: which one, counted from 0, and why.
type errMessage struct {
	at    int
	kind  uint16
	errno unix.Errno
}

func (e errMessage) Error() string {
	return fmt.Sprintf("the kernel refused message %d of the transaction, of kind %d: %v", e.at, e.kind&0xff, e.errno)
}

func (e errMessage) Unwrap() error { return e.errno }

// commit sends the messages as one transaction: either all of them happen, or none. Only the last is to be acknowledged, since the
// kernel reports every message that failed whether it is asked to or not (net/netfilter/nfnetlink.c: nfnetlink_rcv_batch), and puts its
// answers into the socket in order before the sending returns: when the last is acknowledged, and no error came, all were accepted and
// the transaction has happened.
//
// With echo the kernel also says what it then holds: it writes each thing that the transaction made as it would if it were read.
func (n *Namespace) commit(messages []message, echo uint16) (echoed []message, err error) {
	size := 2 * headers
	for _, m := range messages {
		size += headers + len(m.about)
	}
	begin := n.netfilter.sequences(len(messages) + 2)
	out := message{kind: unix.NFNL_MSG_BATCH_BEGIN, flags: echo}.append(make([]byte, 0, size), unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, begin)
	for i, m := range messages {
		m.flags |= echo
		if i == len(messages)-1 {
			m.flags |= unix.NLM_F_ACK
		}
		out = m.append(out, unix.NFPROTO_INET, 0, begin+1+uint32(i))
	}
	end := begin + 1 + uint32(len(messages))
	out = message{kind: unix.NFNL_MSG_BATCH_END}.append(out, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, end)
	if err := n.netfilter.makeRoom(len(out), answersTo(messages, echo)); err != nil {
		return nil, err
	}
	if err := n.netfilter.send(out); err != nil {
		return nil, err
	}
	room := acknowledgement
	if echo != 0 {
		room = dump
	}
	var refused []error
	err = n.netfilter.receive(room, begin, end-1, func(m message, sequence uint32) (bool, error) {
		if m.kind != unix.NLMSG_ERROR {
			echoed = append(echoed, m)
			return false, nil
		}
		if errno := errnoOf(m); errno != 0 {
			at := int(sequence-begin) - 1 // -1 is the transaction as a whole
			e := errMessage{at: at, errno: errno}
			if at >= 0 {
				e.kind = messages[at].kind
			}
			refused = append(refused, e)
			// Without permission or memory, and if the whole fails at its end, that is all that is surely said.
			return at < 0 || sequence == end-1, nil
		}
		return sequence == end-1, nil
	})
	if err := errors.Join(errors.Join(refused...), err); err != nil {
		return nil, err
	}
	n.commits++
	return echoed, nil
}

// answersTo bounds what the answers to a transaction take of a socket's buffer, all of which are in it before any is read. The kernel
// echoes each element alone: of the 16 bytes that one has at the least it makes about 90, and counts about 190 with what they are
// kept in (seen on Linux 6.18). What is not echoed is not answered, but for faults and the last.
func answersTo(messages []message, echo uint16) (size int) {
	if echo == 0 {
		return 0
	}
	for _, m := range messages {
		times := 2
		if m.kind&0xff == unix.NFT_MSG_NEWSETELEM {
			times = 32
		}
		size += times * (headers + len(m.about))
	}
	return size
}

// ask sends one request, and returns the answers' attributes.
func (n *Namespace) ask(kind int, flags uint16, is ...attr) ([]attrs, error) {
	sequence := n.netfilter.sequences(1)
	if err := n.netfilter.send(about(kind, flags, is...).append(nil, unix.NFPROTO_INET, 0, sequence)); err != nil {
		return nil, err
	}
	room := answer
	if flags&unix.NLM_F_DUMP != 0 {
		room = dump
	}
	var out []attrs
	err := n.netfilter.receive(room, sequence, sequence, func(m message, _ uint32) (bool, error) {
		switch {
		case m.flags&dumpInterrupted != 0:
			return true, errChanging
		case m.kind == unix.NLMSG_ERROR || m.kind == unix.NLMSG_DONE:
			if errno := errnoOf(m); errno != 0 {
				return true, errno
			}
			return true, nil
		}
		answer, err := attributes(m.about)
		out = append(out, answer)
		return m.flags&unix.NLM_F_MULTI == 0, err
	})
	return out, err
}
