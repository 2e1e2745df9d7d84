package lock

import (
	"encoding/binary"
	"fmt"
	"time"

	links "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// loopbackIndex is that of lo in every network namespace: LOOPBACK_IFINDEX of include/net/flow.h.
const loopbackIndex = 1

// Now is the time since boot, suspension included, in whole seconds: what a Stamp's Beat is measured in.
func Now() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return time.Duration(now.Sec) * time.Second, nil
}

// WriteStamp makes s the alias of the namespace's link lo. `ip link show lo` shows it.
func (n *Namespace) WriteStamp(s Stamp) (err error) {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("stamp netns %q: %w", n.path, err)
	}
	if err := n.begin(); err != nil {
		return err
	}
	defer func() { err = n.end("stamp lo", err) }()
	return n.stamp(s)
}

// stamp sends what `ip link set lo alias` does: struct ifinfomsg, whose third field is the link's number, and the alias
// (include/uapi/linux/rtnetlink.h, if_link.h). It follows every renewal, which is why no library writes it: that would take longer than
// the renewal.
func (n *Namespace) stamp(s Stamp) error {
	request := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(request[4:], loopbackIndex)
	return n.route.do(unix.RTM_SETLINK, append(request, attrs{{unix.IFLA_IFALIAS, []byte(s.String())}}.bytes()...))
}

// ReadStamp reads what WriteStamp wrote. It fails with ErrNotStamped and ErrStamp.
func (n *Namespace) ReadStamp() (s Stamp, err error) {
	if err := n.begin(); err != nil {
		return Stamp{}, err
	}
	defer func() { err = n.end("read the stamp", err) }()
	return n.readStamp()
}

func (n *Namespace) readStamp() (Stamp, error) {
	h, err := n.handle(unix.NETLINK_ROUTE)
	if err != nil {
		return Stamp{}, err
	}
	defer func() { _ = h.Close() }()
	return readStamp(h)
}

// ReadStamp reads the stamp of the network namespace that the caller is in. It takes no privilege. It fails with ErrNotStamped and
// ErrStamp.
func ReadStamp() (Stamp, error) {
	h, err := links.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return Stamp{}, fmt.Errorf("read the stamp: %w", err)
	}
	defer func() { _ = h.Close() }()
	if err := h.SetSocketTimeout(deadline); err != nil {
		return Stamp{}, fmt.Errorf("read the stamp: %w", err)
	}
	s, err := readStamp(h)
	if err != nil {
		return Stamp{}, fmt.Errorf("read the stamp: %w", err)
	}
	return s, nil
}

func readStamp(h *links.Handle) (Stamp, error) {
	lo, err := h.LinkByIndex(loopbackIndex)
	if err != nil {
		return Stamp{}, fmt.Errorf("link lo: %w", err)
	}
	if lo.Attrs().Alias == "" {
		return Stamp{}, ErrNotStamped
	}
	return ParseStamp(lo.Attrs().Alias)
}
