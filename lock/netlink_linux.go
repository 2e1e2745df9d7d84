package lock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A socket is a netlink socket inside a namespace, for one exchange at a time. It blocks: what it is used for has been answered before
// the sending returns.
type socket struct {
	fd       int
	port     uint32 // its address, which nobody else in the namespace has while it is open
	sequence uint32 // of the last request
	room     []byte // what is left of the last buffer: a reading of the whole lock takes a dozen answers, most of them short
}

const (
	// acknowledgement is room for one: struct nlmsghdr and struct nlmsgerr without what it is about (NETLINK_CAP_ACK).
	acknowledgement = 64
	// answer is room for one that is no list: some attributes, of which names have up to 256 bytes.
	answer = 4 << 10
	// dump is the most that the kernel puts into one datagram of answers, and what it is content with from then on
	// (net/netlink/af_netlink.c: netlink_dump).
	dump = 32 << 10
	// leastBuffer is what no socket's buffers are below (include/net/sock.h: SOCK_MIN_SNDBUF, SOCK_MIN_RCVBUF).
	leastBuffer = 2 << 10
)

// dial opens a socket of each netlink family inside the namespace: in one go, as going there takes longest.
func (n *Namespace) dial(families ...int) (sockets []*socket, err error) {
	err = inside(n.file, func() error {
		if n.hidden {
			if err := refuseNeighbour(); err != nil {
				return err
			}
		}
		for _, family := range families {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
			if err != nil {
				return err
			}
			sockets = append(sockets, &socket{fd: fd})
		}
		return nil
	})
	err = wrap("open a netlink socket", err)
	for _, s := range sockets {
		err = errors.Join(err, isInside(s.fd, n.id), wrap("prepare a netlink socket", s.prepare()))
	}
	if err != nil {
		for _, s := range sockets {
			err = errors.Join(err, s.close())
		}
		return nil, err
	}
	return sockets, nil
}

func (s *socket) prepare() error {
	limit := unix.NsecToTimeval(deadline.Nanoseconds())
	err := errors.Join(
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit), unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1), unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
	)
	if err != nil {
		return err
	}
	address, err := unix.Getsockname(s.fd)
	if own, ok := address.(*unix.SockaddrNetlink); ok {
		s.port = own.Pid
	}
	return err
}

func (s *socket) close() error {
	if s == nil {
		return nil
	}
	return unix.Close(s.fd)
}

// sequences takes numbers for requests, and returns the first.
func (s *socket) sequences(count int) uint32 {
	first := s.sequence + 1
	s.sequence += uint32(count)
	return first
}

// header writes struct nlmsghdr of a request.
func header(out []byte, length int, kind, flags uint16, sequence uint32) []byte {
	out = binary.NativeEndian.AppendUint32(out, uint32(unix.SizeofNlMsghdr+length))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = binary.NativeEndian.AppendUint16(out, flags|unix.NLM_F_REQUEST)
	out = binary.NativeEndian.AppendUint32(out, sequence)
	return binary.NativeEndian.AppendUint32(out, 0)
}

// do sends a request that is answered with an acknowledgement alone.
func (s *socket) do(kind uint16, about []byte) error {
	sequence := s.sequences(1)
	data := header(make([]byte, 0, unix.SizeofNlMsghdr+len(about)), len(about), kind, unix.NLM_F_ACK, sequence)
	if err := s.send(append(data, about...)); err != nil {
		return err
	}
	return s.receive(acknowledgement, sequence, sequence, func(m message, _ uint32) (bool, error) {
		if errno := errnoOf(m); errno != 0 {
			return true, errno
		}
		return m.kind == unix.NLMSG_ERROR, nil
	})
}

// errnoOf reads struct nlmsgerr, or the end of a dump, which begins alike.
func errnoOf(m message) unix.Errno {
	if m.kind != unix.NLMSG_ERROR && m.kind != unix.NLMSG_DONE || len(m.about) < 4 {
		return 0
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(m.about)))
}

// sendOverhead is what the kernel takes of the buffer beside the data (net/netlink/af_netlink.c: netlink_sendmsg).
const sendOverhead = 32

// makeRoom has the socket's buffers hold what is sent at once, and what is answered to it before it is read. Only where they don't
// already, so that a usual lock costs nothing; beyond what the node lets a program without CAP_NET_ADMIN have, since the lists of
// plugin.json decide (socket(7): SO_RCVBUFFORCE).
func (s *socket) makeRoom(sent, answered int) error {
	for _, buffer := range []struct{ size, get, force int }{
		{sent + sendOverhead, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE}, {answered, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE},
	} {
		if buffer.size <= leastBuffer {
			continue
		}
		has, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, buffer.get)
		if err == nil && has < buffer.size {
			err = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, buffer.force, buffer.size) // the kernel doubles it
		}
		if err != nil {
			return fmt.Errorf("make room for %d bytes in a netlink socket: %w", buffer.size, err)
		}
	}
	return nil
}

func (s *socket) send(data []byte) error {
	for {
		err := unix.Sendto(s.fd, data, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return wrap("send to the kernel", err)
		}
	}
}

// receive calls each with the answers to the requests of these numbers, until it says that it has all or fails. What is given to it
// may be kept. No datagram is larger than room.
func (s *socket) receive(room int, from, to uint32, each func(m message, sequence uint32) (all bool, err error)) error {
	for {
		if len(s.room) < room {
			s.room = make([]byte, 2*room)
		}
		length, err := s.receiveSome(s.room)
		if err != nil {
			return fmt.Errorf("receive from the kernel: %w", err)
		}
		data := s.room[:length]
		s.room = s.room[(length+7)&^7:]
		for len(data) >= unix.SizeofNlMsghdr {
			m, sequence, rest, err := nextMessage(data)
			if err != nil {
				return fmt.Errorf("receive from the kernel: %w", err)
			}
			data = rest
			// The socket is of no group: what comes is an answer to this Namespace. The echo of elements has the number 0 (seen on Linux 6.18).
			if sequence-from > to-from && sequence != 0 {
				continue
			}
			if m.kind > unix.NLMSG_OVERRUN {
				if len(m.about) < 4 {
					continue
				}
				m.about = m.about[4:] // struct nfgenmsg
			}
			if all, err := each(m, sequence); all || err != nil {
				return err
			}
		}
	}
}

// nextMessage takes the first message off a datagram that holds a header at least.
func nextMessage(data []byte) (m message, sequence uint32, rest []byte, err error) {
	size := int(binary.NativeEndian.Uint32(data))
	if size < unix.SizeofNlMsghdr || size > len(data) {
		return m, 0, nil, fmt.Errorf("a message of %d bytes, where there are %d", size, len(data))
	}
	m = message{binary.NativeEndian.Uint16(data[4:]), binary.NativeEndian.Uint16(data[6:]), data[unix.SizeofNlMsghdr:size:size]}
	return m, binary.NativeEndian.Uint32(data[8:]), data[min(len(data), (size+3)&^3):], nil
}

// receiveSome receives one datagram of the kernel's.
func (s *socket) receiveSome(buffer []byte) (length int, err error) {
	for length == 0 && err == nil {
		length, err = s.receiveAny(buffer)
	}
	return length, err
}

// receiveAny receives one datagram; of one that isn't the kernel's, and may be anything, 0 bytes.
func (s *socket) receiveAny(buffer []byte) (int, error) {
	length, sender, err := unix.Recvfrom(s.fd, buffer, unix.MSG_TRUNC)
	switch {
	case errors.Is(err, unix.EINTR):
		return 0, nil
	case errors.Is(err, unix.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, err
	}
	if from, ok := sender.(*unix.SockaddrNetlink); !ok || from.Pid != 0 {
		return 0, nil
	}
	if length > len(buffer) {
		return 0, fmt.Errorf("a datagram of %d bytes, of which %d were read", length, len(buffer))
	}
	return length, nil
}
