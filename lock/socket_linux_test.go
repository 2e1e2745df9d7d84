package lock

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// sent takes what the pod has sent since it was last asked.
func (p *pod) sent() []packet {
	var out []packet
	buffer := make([]byte, 4096)
	for {
		n, err := unix.Read(p.tap, buffer)
		if err != nil {
			return out
		}
		if k, isIP := parse(append([]byte(nil), buffer[:n]...)); isIP {
			out = append(out, k)
		}
	}
}

// receive lets packets come in.
func (p *pod) receive(packets ...packet) {
	for _, k := range packets {
		if _, err := unix.Write(p.tap, k.frame()); err != nil {
			panic(err) // the harness is broken
		}
	}
}

// socket opens one that does not block and is bound to no link.
func (p *pod) socket(u user, family, kind, proto int) int {
	var fd int
	var err error
	u.do(func() { fd, err = unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, proto) })
	if err != nil {
		panic(fmt.Errorf("socket(%d, %d, %d): %w", family, kind, proto, err))
	}
	must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
	p.open = append(p.open, fd)
	return fd
}

// do makes the files that f opens the user's.
func (u user) do(f func()) {
	_, gidErr := unix.SetfsgidRetGid(u.gid)
	_, uidErr := unix.SetfsuidRetUid(u.uid)
	must(errors.Join(gidErr, uidErr))
	f()
	_, _ = unix.SetfsuidRetUid(0)
	_, _ = unix.SetfsgidRetGid(0)
}

func (p *pod) close(fd int) {
	for i, one := range p.open {
		if one == fd {
			p.open = append(p.open[:i], p.open[i+1:]...)
			must(unix.Close(fd))
			return
		}
	}
}

func (p *pod) closeAll() {
	for len(p.open) > 0 {
		p.close(p.open[0])
	}
}

// nextPort is one that no probe has used.
func (p *pod) nextPort() uint16 { p.port++; return p.port }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func familyOf(a netip.Addr) int {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func sockaddr(a netip.Addr, port uint16) unix.Sockaddr {
	if a.Is6() {
		return &unix.SockaddrInet6{Addr: a.As16(), Port: int(port)}
	}
	return &unix.SockaddrInet4{Addr: a.As4(), Port: int(port)}
}

func any0(a netip.Addr) netip.Addr {
	if a.Is6() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

func own(a netip.Addr) netip.Addr {
	if a.Is6() {
		return pod6
	}
	return pod4
}

// tie binds a socket to p0, whatever the routes say.
func tie(fd int) { must(unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "p0")) }
