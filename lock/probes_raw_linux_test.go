package lock

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// sendsRaw sends the payload behind an IP header from a raw socket of the user. Tied to p0, it reaches what routes lead elsewhere.
func sendsRaw(u user, proto int, payload string) func(*run, netip.Addr) bool {
	return func(r *run, to netip.Addr) bool {
		fd := r.socket(u, familyOf(to), unix.SOCK_RAW, proto)
		defer r.close(fd)
		tie(fd)
		r.sent()
		_ = unix.Sendto(fd, []byte(payload), 0, sockaddr(to, 0))
		return slices.ContainsFunc(r.sent(), func(k packet) bool { return k.dst == to && int(k.proto) == proto })
	}
}

// sendsSYN is the first segment of a connection, by a raw socket: to addresses to which no connection can be made.
func sendsSYN(u user) func(*run, netip.Addr) bool {
	return func(r *run, to netip.Addr) bool { return sendsSegment(u, r.nextPort(), 443, syn)(r, to) }
}

func sendsSegment(u user, from, port uint16, flags byte) func(*run, netip.Addr) bool {
	return func(r *run, to netip.Addr) bool {
		k := packet{src: own(to), dst: to, proto: tcp4, sport: from, dport: port, seq: 1, ack: 1, flags: flags}
		return sendsRaw(u, unix.IPPROTO_TCP, string(k.transport()))(r, to)
	}
}

// sendsWhole writes the IP header itself, of IPv4.
func sendsWhole(r *run, u user, packets ...[]byte) bool {
	fd := r.socket(u, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	defer r.close(fd)
	r.sent()
	for _, whole := range packets {
		to := addr(whole[16:20])
		_ = unix.Sendto(fd, whole, 0, sockaddr(to, 0))
	}
	to := addr(packets[0][16:20])
	return slices.ContainsFunc(r.sent(), func(k packet) bool { return k.dst == to })
}

// pings sends an echo request from a ping socket (net.ipv4.ping_group_range).
func pings(u user) func(*run, netip.Addr) bool {
	return func(r *run, to netip.Addr) bool {
		proto, kind := unix.IPPROTO_ICMP, byte(8)
		if to.Is6() {
			proto, kind = unix.IPPROTO_ICMPV6, 128
		}
		fd := r.socket(u, familyOf(to), unix.SOCK_DGRAM, proto)
		defer r.close(fd)
		r.sent()
		_ = unix.Sendto(fd, []byte{kind, 0, 0, 0, 0, 0, 0, 0}, 0, sockaddr(to, 0))
		return slices.ContainsFunc(r.sent(), func(k packet) bool { return k.dst == to && int(k.proto) == proto })
	}
}

// connectsByMPTCP sends through sockets that the kernel makes for the user's (RFC 8684). A kernel without it is asked by TCP.
func connectsByMPTCP(u user) func(*run, netip.Addr) bool {
	return func(r *run, to netip.Addr) bool {
		proto := unix.IPPROTO_MPTCP
		if fd, err := unix.Socket(familyOf(to), unix.SOCK_STREAM, proto); err == nil {
			must(unix.Close(fd))
		} else {
			proto = unix.IPPROTO_TCP
		}
		fd := r.socket(u, familyOf(to), unix.SOCK_STREAM, proto)
		r.sent()
		_ = unix.Connect(fd, sockaddr(to, 443))
		return slices.ContainsFunc(r.sent(), func(k packet) bool { return k.dst == to && k.flags&syn != 0 })
	}
}

func rawProbes() []probe {
	probes := both("the sidecar connects by MPTCP", "", outside4, outside6, connectsByMPTCP(theSidecar))
	probes = append(probes, both("the sidecar connects by MPTCP to a private address", CountRefused, private4, private6, connectsByMPTCP(theSidecar))...)
	probes = append(probes, both("another user connects by MPTCP", CountOther, outside4, outside6, connectsByMPTCP(workload))...)
	probes = append(probes, both("the sidecar pings", CountRefused, outside4, outside6, pings(theSidecar))...)
	probes = append(probes, both("the sidecar pings an allowed address", CountRefused, allowed4, allowed6, pings(theSidecar))...)
	probes = append(probes, both("another user pings", CountOther, outside4, outside6, pings(workload))...)
	probes = append(probes, both("a tunnel of the sidecar's", CountRefused, outside4, outside6, sendsRaw(theSidecar, unix.IPPROTO_GRE, "\x00\x00\x08\x00"))...)
	probes = append(probes, both("a raw segment of the sidecar's", "", outside4, outside6, sendsSYN(theSidecar))...)
	probes = append(probes, both("a raw segment of another user's", CountOther, outside4, outside6, sendsSYN(workload))...)
	probes = append(probes, both("a raw question of another user's", CountOther, resolver4, resolver6,
		sendsRaw(workload, unix.IPPROTO_UDP, "\x9c\x40\x00\x35\x00\x08\x00\x00"))...)
	probes = append(probes, probe{name: "a raw echo request of another user's", why: CountOther, try: func(r *run) bool {
		return sendsRaw(workload, unix.IPPROTO_ICMP, "\x08\x00\xf7\xff\x00\x00\x00\x00")(r, outside4)
	}}, probe{name: "a packet with a header of another user's own", why: CountOther, try: func(r *run) bool {
		k := packet{src: pod4, dst: resolver4, proto: udp4, sport: r.nextPort(), dport: 53, payload: []byte("x")}
		return sendsWhole(r, workload, k.ip(k.transport()))
	}})
	for _, kind := range []byte{byte(neighbourSolicit), byte(neighbourAdvert)} {
		for name, u := range map[string]user{"another user's": workload, "another user's with the sidecar's group": wrongUser} {
			probes = append(probes, probe{
				name: fmt.Sprintf("a tunnel of %s in ICMPv6 of type %d", name, kind), why: CountOther,
				try: func(r *run) bool {
					return sendsRaw(u, unix.IPPROTO_ICMPV6, string([]byte{kind, 0, 0, 0})+"tunnel")(r, outside6)
				},
			})
		}
	}
	return probes
}

// rowProbes try the ends of each range, and what lies beside them.
func rowProbes() []probe {
	ranges := slices.Clone(testConfig.Refuse)
	for _, row := range Refused() {
		ranges = append(ranges, row.Prefix)
	}
	allowed := func(a netip.Addr) bool {
		return slices.ContainsFunc(testConfig.AllowPrivate, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
	}
	refusedBySome := func(a netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
	}
	// never are addresses to which no packet leaves: one's own, and multicast of a reserved scope.
	never := []netip.Addr{ip("0.0.0.0"), ip("::"), ip("::1"), ip("fe80::"), ip("ff00::"), ip("ff00::1")}
	probes := []probe{{name: "the sidecar connects to multicast", why: CountRefused, try: func(r *run) bool {
		return sendsSYN(theSidecar)(r, ip("ff0e::1"))
	}}}
	seen := map[netip.Addr]bool{}
	for _, prefix := range append(ranges, testConfig.AllowPrivate...) {
		first, last := prefix.Addr(), lastOf(prefix)
		for _, a := range []netip.Addr{first.Prev(), first, first.Next(), last.Prev(), last, last.Next()} {
			if !a.IsValid() || slices.Contains(never, a) || p("fd00:244::/64").Contains(a) || seen[a] {
				continue // no such address, or one that never leaves
			}
			seen[a] = true
			why := ""
			if refusedBySome(a) && !allowed(a) {
				why = CountRefused
			}
			probes = append(probes, probe{name: fmt.Sprintf("the sidecar connects to %s, at an end of %s", a, prefix), why: why, try: func(r *run) bool {
				return sendsSYN(theSidecar)(r, a)
			}})
		}
	}
	return probes
}

// lastOf is the range's last address.
func lastOf(prefix netip.Prefix) netip.Addr {
	b := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < 8*len(b); bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return addr(b)
}

// reuseProbes let another user send from the port that the sidecar has just used, to the same end.
func reuseProbes() []probe {
	var probes []probe
	for name, u := range map[string]user{
		"the workload": workload, "another user with the sidecar's group": wrongUser, "the sidecar's user with another group": wrongGroup,
	} {
		probes = append(probes, both(name+" on the sidecar's UDP port", CountOther, resolver4, resolver6, func(r *run, to netip.Addr) bool {
			f := r.udp(theSidecar, to, 53)
			r.asked(f, "question")
			r.receive(f.answer("answer"))
			r.close(f.fd)
			f.fd = r.socket(u, familyOf(to), unix.SOCK_DGRAM, 0)
			must(unix.Bind(f.fd, sockaddr(any0(to), f.local.Port())))
			return r.asked(f, "tunnel")
		})...)
	}
	for _, how := range []struct {
		name string
		end  func(*run, *flow)
	}{{"live", func(*run, *flow) {}}, {"closed", closed}, {"reset", func(r *run, f *flow) {
		r.receive(f.packet(rst|ackFlag, ""))
		r.close(f.fd)
	}}, {"abandoned", nil}} {
		segments := func(r *run, to netip.Addr) bool {
			f := r.dialed(to, how.end)
			again := sendsSegment(workload, f.local.Port(), 443, syn)(r, to)
			data := sendsSegment(workload, f.local.Port(), 443, psh|ackFlag)(r, to)
			return again || data
		}
		probes = append(probes, both("another user's raw segments in a TCP connection of the sidecar's that is "+how.name, CountOther, outside4, outside6, segments)...)
		if how.name == "live" {
			continue
		}
		probes = append(probes, both("another user connects from the port of a TCP connection of the sidecar's that is "+how.name, CountOther,
			outside4, outside6, func(r *run, to netip.Addr) bool {
				f := r.dialed(to, how.end)
				f.fd = r.socket(workload, familyOf(to), unix.SOCK_STREAM, 0)
				must(unix.Bind(f.fd, sockaddr(any0(to), f.local.Port())))
				r.sent()
				_ = unix.Connect(f.fd, sockaddr(to, 443))
				return slices.ContainsFunc(f.mine(r.sent()), func(k packet) bool { return k.flags == syn })
			})...)
	}
	return probes
}

// dialed is a connection of the sidecar's that has come to the end. Without one the SYN was not answered and the socket closed.
func (r *run) dialed(to netip.Addr, end func(*run, *flow)) *flow {
	if end != nil {
		if f := r.dial(theSidecar, to, 443); f != nil {
			end(r, f)
			return f
		}
	}
	f := &flow{local: netip.AddrPortFrom(own(to), r.nextPort()), remote: netip.AddrPortFrom(to, 443)}
	fd := r.socket(theSidecar, familyOf(to), unix.SOCK_STREAM, 0)
	must(unix.Bind(fd, sockaddr(any0(to), f.local.Port())))
	_ = unix.Connect(fd, sockaddr(to, 443))
	r.close(fd)
	return f
}

// closed ends it from outside, so that the pod keeps no TIME_WAIT.
func closed(r *run, f *flow) {
	r.receive(f.packet(fin|ackFlag, ""))
	f.seq++
	r.close(f.fd)
	f.ack++
	r.receive(f.packet(ackFlag, ""))
}
