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
		continuationProbes(), inboundProbes(), errorProbes(), neighbourProbes(), forwardProbes(), fragmentProbes(), ownerlessProbes(),
		liveProbes(),
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
	probes = append(probes, both("a resolver by SCTP", CountRefused, resolver4, resolver6, sendsRaw(theSidecar, 132, "\x00\x35\x00\x35"))...)
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

func neighbourProbes() []probe {
	return []probe{
		{name: "the kernel looks for a neighbour", try: func(r *run) bool {
			r.forget()
			r.sent()
			fd := r.socket(theSidecar, unix.AF_INET6, unix.SOCK_STREAM, 0)
			_ = unix.Connect(fd, sockaddr(neighbour6, 443))
			return sentKind(r, icmpv6, 135)
		}},
		{name: "a neighbour that is not allowed is not looked for", why: CountRefused, try: func(r *run) bool {
			r.sent()
			fd := r.socket(theSidecar, unix.AF_INET6, unix.SOCK_STREAM, 0)
			_ = unix.Connect(fd, sockaddr(neighbour6.Next(), 443))
			return sentKind(r, icmpv6, 135)
		}},
		{name: "a neighbour's answer is heard", try: func(r *run) bool {
			r.forget()
			f := &flow{local: netip.AddrPortFrom(pod6, r.nextPort()), remote: netip.AddrPortFrom(neighbour6, 443)}
			fd := r.socket(theSidecar, unix.AF_INET6, unix.SOCK_STREAM, 0)
			must(unix.Bind(fd, sockaddr(any0(pod6), f.local.Port())))
			_ = unix.Connect(fd, sockaddr(neighbour6, 443))
			r.sent()
			target := append([]byte{0x60, 0, 0, 0}, neighbour6.AsSlice()...) // solicited, override; RFC 4861 section 4.4
			r.receive(packet{src: neighbour6, dst: pod6, proto: icmpv6, sport: 136, payload: append(target, append([]byte{2, 1}, gatewayMAC...)...)})
			return len(f.mine(r.sent())) > 0
		}},
		{name: "a neighbour that asks is answered", try: func(r *run) bool {
			r.sent()
			target := append([]byte{0, 0, 0, 0}, pod6.AsSlice()...)
			r.receive(packet{src: gateway6, dst: ip("ff02::1:ff00:2"), proto: icmpv6, sport: 135, payload: append(target, append([]byte{1, 1}, gatewayMAC...)...)})
			return sentKind(r, icmpv6, 136)
		}},
		{name: "the kernel reports a group it joined", try: func(r *run) bool {
			r.sent()
			fd := r.socket(workload, unix.AF_INET6, unix.SOCK_DGRAM, 0)
			must(unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{
				Multiaddr: ip("ff02::4242").As16(), Interface: uint32(r.p0()),
			}))
			return eventually(func() bool { return sentKind(r, icmpv6, 143) })
		}},
	}
}

func (p *pod) p0() int {
	request, err := unix.NewIfreq("p0")
	must(err)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must(err)
	defer func() { must(unix.Close(fd)) }()
	must(unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request))
	return int(request.Uint32())
}

func forwardProbes() []probe {
	return []probe{
		{name: "a packet of somebody else's, to be passed on, over IPv4", why: CountForward, try: func(r *run) bool {
			return passedOn(r, packet{src: ip("10.244.0.77"), dst: ip("8.8.8.8"), proto: udp4, sport: r.nextPort(), dport: 53})
		}},
		{name: "a packet of somebody else's, to be passed on, over IPv6", why: CountForward, try: func(r *run) bool {
			return passedOn(r, packet{src: ip("fd00:244::77"), dst: outside6, proto: udp4, sport: r.nextPort(), dport: 53})
		}},
		{name: "the kernel's own answer to one whose time is up", why: CountNoOwner, try: func(r *run) bool {
			r.sent()
			r.receive(packet{src: ip("10.245.0.77"), dst: ip("8.8.8.8"), proto: udp4, ttl: 1, sport: r.nextPort(), dport: 53})
			return sentKind(r, icmp4, 11)
		}},
	}
}

func passedOn(r *run, k packet) bool {
	r.sent()
	r.receive(k)
	for _, out := range r.sent() {
		if out.src == k.src && out.dst == k.dst {
			return true
		}
	}
	return false
}

func sentKind(r *run, proto byte, kind uint16) bool {
	for _, k := range r.sent() {
		if k.proto == proto && k.sport == kind {
			return true
		}
	}
	return false
}

// liveProbes make the flows that the end of the lease is to cut.
func liveProbes() []probe {
	return []probe{{name: "flows of each kind", try: func(r *run) bool {
		r.live = r.dial(theSidecar, outside4, 443)
		r.asks = r.udp(theSidecar, resolver4, 53)
		asked := r.asked(r.asks, "question")
		r.drainHealth()
		if r.in = r.called(outside4, HealthPort); r.in == nil || r.live == nil || !asked {
			return false
		}
		r.in.fd = r.accept(r.health)
		return true
	}}}
}

func endedProbes() []probe {
	return []probe{
		{name: "a live TCP flow sends", why: CountLeaseOut, try: func(r *run) bool { return r.live != nil && writes(r, r.live) }},
		{name: "a live TCP flow receives", why: CountLeaseIn, try: func(r *run) bool { return r.live != nil && reads(r, r.live) }},
		{name: "a live UDP flow sends", why: CountLeaseOut, try: func(r *run) bool { return r.asks != nil && r.asked(r.asks, "again") }},
		{name: "a live UDP flow receives", why: CountLeaseIn, try: func(r *run) bool {
			if r.asks == nil {
				return false
			}
			r.receive(r.asks.answer("late"))
			return got(r.asks.fd)
		}},
		{name: "an accepted flow sends", why: CountLeaseOut, try: func(r *run) bool { return r.in != nil && writes(r, r.in) }},
		{name: "an accepted flow receives", why: CountLeaseIn, try: func(r *run) bool { return r.in != nil && reads(r, r.in) }},
	}
}

func writes(r *run, f *flow) bool {
	r.sent()
	_, _ = unix.Write(f.fd, []byte("out"))
	for _, k := range f.mine(r.sent()) {
		if string(k.payload) == "out" {
			f.ack += 3
			r.receive(f.packet(ackFlag, "")) // or the next would wait for it (RFC 896)
			return true
		}
	}
	return false
}

func reads(r *run, f *flow) bool {
	r.receive(f.packet(psh|ackFlag, "in"))
	f.seq += 2
	return got(f.fd)
}
