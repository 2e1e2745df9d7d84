package lock

import (
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

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
	}
}

// reportProbes are of groups that a user joins: it is the kernel that says so on the link.
func reportProbes() []probe {
	return both("the report of a group that a user joined", CountNoOwner, ip("239.83.69.67"), ip("ff0e:5345:4352:4554::1"), func(r *run, group netip.Addr) bool {
		fd := r.socket(workload, familyOf(group), unix.SOCK_DGRAM, 0)
		if group.Is4() {
			must(unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(r.p0())}))
			return r.byTimer(func(k packet) bool { return k.proto == unix.IPPROTO_IGMP })
		}
		must(unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(r.p0())}))
		return r.byTimer(func(k packet) bool { return k.proto == icmpv6 && k.sport == 143 }) // RFC 9777 section 5.2
	})
}

// byTimer waits until the kernel has sent such a packet, or the lock has counted one.
func (r *run) byTimer(such func(packet) bool) (passed bool) {
	open, before := r.isOpen(), r.counted
	eventually(func() bool {
		passed = passed || slices.ContainsFunc(r.sent(), such)
		if open || passed {
			return passed
		}
		r.count()
		return !maps.Equal(r.counted, before)
	})
	return passed
}

func sentKind(r *run, proto byte, kind uint16) bool {
	for _, k := range r.sent() {
		if k.proto == proto && k.sport == kind {
			return true
		}
	}
	return false
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

// liveProbes make the flows that the end of the lease is to cut.
func liveProbes() []probe {
	return []probe{{name: "flows of each kind", try: func(r *run) bool {
		r.live = r.dial(theSidecar, outside4, 443)
		r.asks = r.udp(theSidecar, resolver4, 53)
		asked := r.asked(r.asks, "question")
		r.in = r.answered(theSidecar, r.health, outside4, HealthPort)
		return r.in != nil && r.live != nil && asked
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
