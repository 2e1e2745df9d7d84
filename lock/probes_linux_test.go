package lock

import (
	"errors"
	"net/netip"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// A probe tries to get something through, and says whether it did. With why empty the lock has to let it through; else it must
// not, and the counter why has to rise. Without a lock every probe gets through.
type probe struct {
	name, phase string
	why         string
	try         func(*run) bool
}

const (
	// held is no counter: the packet waits for others, and is gone.
	held = "held"

	unleased = "without a lease"
	lent     = "with a lease"
	ended    = "after the lease"
)

// probes are all of them, in the order of a run.
func probes() []probe {
	all := inPhase(unleased, unleasedProbes())
	for _, group := range [][]probe{
		loopbackProbes(), resolverProbes(), tcpProbes(), rowProbes(), otherUserProbes(), rawProbes(), reuseProbes(),
		continuationProbes(), inboundProbes(), healthProbes(), errorProbes(), neighbourProbes(), forwardProbes(), fragmentProbes(), answerProbes(), ownerlessProbes(),
		reportProbes(), liveProbes(),
	} {
		all = append(all, inPhase(lent, group)...)
	}
	return append(all, inPhase(ended, endedProbes())...)
}

func inPhase(phase string, group []probe) []probe {
	for i := range group {
		group[i].phase = phase
	}
	return group
}

func aliveSet(t *nftables.Table) *nftables.Set { return &nftables.Set{Table: t, Name: setAlive} }

// both makes a probe of each family.
func both(name, why string, a4, a6 netip.Addr, try func(*run, netip.Addr) bool) []probe {
	return []probe{
		{name: name + " over IPv4", why: why, try: func(r *run) bool { return try(r, a4) }},
		{name: name + " over IPv6", why: why, try: func(r *run) bool { return try(r, a6) }},
	}
}

func connects(u user, port uint16) func(*run, netip.Addr) bool {
	return func(r *run, to netip.Addr) bool { return r.dial(u, to, port) != nil }
}

func asks(u user, port uint16) func(*run, netip.Addr) bool {
	return func(r *run, to netip.Addr) bool { return r.asked(r.udp(u, to, port), "question") }
}

func unleasedProbes() []probe {
	probes := both("the sidecar connects", CountLeaseOut, outside4, outside6, connects(theSidecar, 443))
	probes = append(probes, both("the sidecar asks the resolver", CountLeaseOut, resolver4, resolver6, asks(theSidecar, 53))...)
	probes = append(probes, both("another user connects", CountLeaseOut, outside4, outside6, connects(workload, 443))...)
	probes = append(probes, both("a call to the health port", CountLeaseIn, outside4, outside6, func(r *run, from netip.Addr) bool {
		return r.called(from, HealthPort) != nil
	})...)
	probes = append(probes, probe{name: "a packet to be passed on", why: CountLeaseIn, try: func(r *run) bool {
		return passedOn(r, packet{src: ip("10.245.0.77"), dst: ip("8.8.8.8"), proto: udp4, sport: r.nextPort(), dport: 53})
	}})
	return append(probes, loopbackProbes()...)
}

func loopbackProbes() []probe {
	return both("another user talks to itself", "", pod4, pod6, func(r *run, self netip.Addr) bool {
		f := r.udp(workload, self, 0)
		_ = unix.Sendto(f.fd, []byte("x"), 0, sockaddr(self, f.local.Port()))
		return got(f.fd)
	})
}

func resolverProbes() []probe {
	probes := both("the sidecar asks a resolver by UDP", "", resolver4, resolver6, asks(theSidecar, 53))
	probes = append(probes, both("the sidecar asks a resolver by TCP", "", resolver4, resolver6, connects(theSidecar, 53))...)
	probes = append(probes, both("a resolver's answer", "", resolver4, resolver6, func(r *run, to netip.Addr) bool {
		f := r.udp(theSidecar, to, 53)
		r.asked(f, "question")
		r.receive(f.answer("answer"))
		return got(f.fd)
	})...)
	probes = append(probes, both("a resolver by another UDP port", CountRefused, resolver4, resolver6, asks(theSidecar, 54))...)
	probes = append(probes, both("a resolver by another TCP port", CountRefused, resolver4, resolver6, connects(theSidecar, 443))...)
	init := "\x00\x35\x00\x35\x00\x00\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x14\x00\x00\x00\x01\x00\x00\xff\xff\x00\x01\x00\x01\x00\x00\x00\x01" // RFC 9260 section 3.3.2
	probes = append(probes, both("a resolver by SCTP", CountRefused, resolver4, resolver6, sendsRaw(theSidecar, unix.IPPROTO_SCTP, init))...)
	probes = append(probes, both("DNS by UDP to elsewhere", CountRefused, outside4, outside6, asks(theSidecar, 53))...)
	probes = append(probes, both("DNS by UDP to a private address", CountRefused, private4, private6, asks(theSidecar, 53))...)
	return append(probes, both("DNS by TCP to a private address", CountRefused, private4, private6, connects(theSidecar, 53))...)
}

func tcpProbes() []probe {
	probes := both("the sidecar connects", "", outside4, outside6, connects(theSidecar, 443))
	probes = append(probes, both("the sidecar connects to any port, 53 too", "", outside4, outside6, connects(theSidecar, 53))...)
	probes = append(probes, both("the sidecar connects to an allowed range", "", allowed4, allowed6, connects(theSidecar, 443))...)
	probes = append(probes, both("UDP to an allowed range", CountRefused, allowed4, allowed6, asks(theSidecar, 443))...)
	probes = append(probes, both("UDP to anywhere", CountRefused, outside4, outside6, asks(theSidecar, 443))...)
	probes = append(probes, both("a range of refuse", CountRefused, ip("9.9.9.9"), ip("2620:fe::fe"), connects(theSidecar, 443))...)
	return append(probes,
		probe{name: "an outside address in v4-mapped form", try: func(r *run) bool { return mapped(r, outside4) }},
		probe{name: "a private address in v4-mapped form", why: CountRefused, try: func(r *run) bool { return mapped(r, private4) }},
	)
}

// mapped connects an IPv6 socket to the IPv4 address in its v4-mapped form, which sends IPv4.
func mapped(r *run, to netip.Addr) bool {
	fd := r.socket(theSidecar, unix.AF_INET6, unix.SOCK_STREAM, 0)
	r.sent()
	_ = unix.Connect(fd, &unix.SockaddrInet6{Addr: to.As16(), Port: 443})
	for _, k := range r.sent() {
		if k.dst == to && k.flags&syn != 0 {
			return true
		}
	}
	return false
}

func otherUserProbes() []probe {
	var probes []probe
	for _, u := range []struct {
		name string
		user
	}{{"the workload", workload}, {"root", root}, {"the sidecar's user with another group", wrongGroup}, {"another user with the sidecar's group", wrongUser}} {
		probes = append(probes, both(u.name+" connects", CountOther, outside4, outside6, connects(u.user, 443))...)
		probes = append(probes, both(u.name+" asks a resolver by UDP", CountOther, resolver4, resolver6, asks(u.user, 53))...)
		probes = append(probes, both(u.name+" asks a resolver by TCP", CountOther, resolver4, resolver6, connects(u.user, 53))...)
		probes = append(probes, both(u.name+" connects to an allowed range", CountOther, allowed4, allowed6, connects(u.user, 443))...)
	}
	probes = append(probes, both("the workload's connection fails at once", "", outside4, outside6, failsAtOnce(workload))...)
	return append(probes, both("the connection of another user with the sidecar's group fails at once", "", outside4, outside6, failsAtOnce(wrongUser))...)
}

// failsAtOnce is also true without a lock, where the connection goes on.
func failsAtOnce(u user) func(*run, netip.Addr) bool {
	return func(r *run, to netip.Addr) bool {
		fd := r.socket(u, familyOf(to), unix.SOCK_STREAM, 0)
		err := unix.Connect(fd, sockaddr(to, 443))
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0); n == 1 {
			code, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			err = unix.Errno(code)
		}
		return errors.Is(err, unix.ECONNREFUSED) || r.isOpen()
	}
}

// isOpen reports whether the namespace has no lock: then there is nothing to refuse.
func (r *run) isOpen() bool {
	must(r.begin())
	locked, err := r.locked()
	must(r.end("look", err))
	return !locked
}
