package lock

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// continuationProbes are segments that no socket with a file sends: of a connection that the sidecar has closed.
func continuationProbes() []probe {
	dialed := func(then func(*run, *flow) bool) func(*run, netip.Addr) bool {
		return func(r *run, to netip.Addr) bool {
			f := r.dial(theSidecar, to, 443)
			return f != nil && then(r, f)
		}
	}
	probes := both("data both ways", "", outside4, outside6, dialed(func(r *run, f *flow) bool { return writes(r, f) && reads(r, f) }))
	probes = append(probes, both("FIN of a closed connection", "", outside4, outside6, dialed(func(r *run, f *flow) bool {
		r.close(f.fd)
		return f.sends(r.sent(), fin)
	}))...)
	probes = append(probes, both("RST at data that comes after the close", "", outside4, outside6, dialed(func(r *run, f *flow) bool {
		r.close(f.fd)
		r.sent()
		r.receive(f.packet(psh|ackFlag, "late"))
		return f.sends(r.sent(), rst)
	}))...)
	probes = append(probes, both("RST of a close with data unread", "", outside4, outside6, dialed(func(r *run, f *flow) bool {
		r.receive(f.packet(psh|ackFlag, "unread"))
		r.sent()
		r.close(f.fd)
		return f.sends(r.sent(), rst)
	}))...)
	for _, to := range []struct {
		name   string
		a4, a6 netip.Addr
		port   uint16
	}{{"outside", outside4, outside6, 443}, {"a resolver", resolver4, resolver6, 53}, {"an allowed range", allowed4, allowed6, 443}} {
		probes = append(probes, both("the last ACK to "+to.name+", after the close", "", to.a4, to.a6, func(r *run, a netip.Addr) bool {
			f := r.dial(theSidecar, a, to.port)
			return f != nil && lastACK(r, f)
		})...)
	}
	return probes
}

func inboundProbes() []probe {
	probes := both("a call to the health port", "", outside4, outside6, func(r *run, from netip.Addr) bool { return r.called(from, HealthPort) != nil })
	probes = append(probes,
		probe{name: "a call to an ingress port", try: func(r *run) bool { return r.called(outside4, 8443) != nil }},
		probe{name: "a call to another port", why: CountInput, try: func(r *run) bool { return r.called(outside4, 8080) != nil }},
		probe{name: "the answer to a call where nobody listens", why: CountInput, try: func(r *run) bool {
			r.sent()
			r.receive(packet{src: outside4, dst: pod4, proto: tcp4, sport: 999, dport: 81, flags: syn, seq: 1})
			return slices.ContainsFunc(r.sent(), func(k packet) bool { return k.dport == 999 })
		}},
		probe{name: "an accepted call both ways", try: func(r *run) bool {
			f := r.answered(workload, r.ingress, outside4, 8443)
			return f != nil && writes(r, f) && reads(r, f)
		}},
		probe{name: "data in a connection from before the lock, to the health port", why: CountInput, try: func(r *run) bool { return reads(r, r.old[0]) }},
		probe{name: "data in a connection from before the lock, to an ingress port", why: CountInput, try: func(r *run) bool { return reads(r, r.old[1]) }},
		probe{name: "IPv4 that says it is ICMPv6", why: CountInput, try: func(r *run) bool {
			fd := r.socket(workload, unix.AF_INET, unix.SOCK_RAW, icmpv6)
			r.receive(packet{src: outside4, dst: pod4, proto: icmpv6, sport: 135}, packet{src: outside4, dst: pod4, proto: icmpv6, sport: 136})
			return got(fd)
		}},
	)
	probes = append(probes, both("a datagram to a socket of the workload's", CountInput, outside4, outside6, func(r *run, from netip.Addr) bool {
		f := r.udp(workload, from, r.nextPort())
		r.receive(f.answer("unasked"))
		return got(f.fd)
	})...)
	probes = append(probes, both("a datagram to the sidecar's socket from another than it asked", CountInput, outside4, outside6, func(r *run, from netip.Addr) bool {
		f := r.udp(theSidecar, map[bool]netip.Addr{false: resolver4, true: resolver6}[from.Is6()], 53)
		r.asked(f, "question")
		f.remote = netip.AddrPortFrom(from, 53)
		r.receive(f.answer("poison"))
		return got(f.fd)
	})...)
	return append(probes, both("an echo request", CountInput, outside4, outside6, func(r *run, from netip.Addr) bool {
		k := packet{src: from, dst: own(from), proto: icmp4, sport: 8, payload: []byte{0, 1, 0, 1}}
		if from.Is6() {
			k.proto, k.sport = icmpv6, 128
		}
		r.sent()
		r.receive(k)
		return slices.ContainsFunc(r.sent(), func(out packet) bool { return out.dst == from })
	})...)
}

// lastACK reports whether the pod sends the last ACK of a flow that it closes first.
func lastACK(r *run, f *flow) bool {
	r.close(f.fd)
	f.ack++
	r.receive(f.packet(ackFlag, ""))
	r.sent()
	r.receive(f.packet(fin|ackFlag, ""))
	return f.sends(r.sent(), ackFlag)
}

// answered is a call to the listener that its user takes, after those that wait already.
func (r *run) answered(u user, listener int, from netip.Addr, port uint16) *flow {
	for r.accept(u, listener) >= 0 {
	}
	f := r.called(from, port)
	if f != nil {
		f.fd = r.accept(u, listener)
	}
	return f
}

// healthProbes call the health port: of the sidecar, and of others that took it while the sidecar was down.
func healthProbes() []probe {
	answered := func(then func(*run, *flow) bool) func(*run) bool {
		return func(r *run) bool {
			f := r.answered(theSidecar, r.health, outside4, HealthPort)
			return f != nil && then(r, f)
		}
	}
	probes := []probe{
		{name: "a call to the health port both ways", try: answered(func(r *run, f *flow) bool { return writes(r, f) && reads(r, f) })},
		{name: "a call to the health port that comes again before its answer did", try: func(r *run) bool {
			f := &flow{remote: netip.AddrPortFrom(outside4, r.nextPort()), local: netip.AddrPortFrom(pod4, HealthPort), seq: 5000}
			for range 2 {
				r.sent()
				r.receive(f.packet(syn, ""))
				if !f.sends(r.sent(), syn|ackFlag) {
					return false
				}
			}
			return true
		}},
		{name: "the last ACK of a call to the health port, after the close", try: answered(lastACK)},
		{name: "RST at data that comes after the close of a call to the health port", try: answered(func(r *run, f *flow) bool {
			r.close(f.fd)
			r.sent()
			r.receive(f.packet(psh|ackFlag, "late"))
			return f.sends(r.sent(), rst)
		})},
		{name: "another user's raw segment in a call that the sidecar answered", why: CountOther, try: answered(func(r *run, f *flow) bool {
			k := packet{src: pod4, dst: outside4, proto: tcp4, sport: HealthPort, dport: f.remote.Port(), seq: f.ack, ack: f.seq, flags: psh | ackFlag}
			return sendsRaw(workload, unix.IPPROTO_TCP, string(k.transport()))(r, outside4)
		})},
		{name: "the answer to a call to the health port where nobody listens", why: CountNoOwner, try: func(r *run) bool {
			r.close(r.health)
			f := &flow{remote: netip.AddrPortFrom(outside4, r.nextPort()), local: netip.AddrPortFrom(pod4, HealthPort), seq: 5000}
			r.sent()
			r.receive(f.packet(syn, ""))
			sent := r.sent()
			r.health = r.listen(theSidecar, pod4, HealthPort)
			return f.sends(sent, rst)
		}},
	}
	for name, u := range map[string]user{
		"another user": workload, "another user with the sidecar's group": wrongUser, "the sidecar's user with another group": wrongGroup,
	} {
		probes = append(probes, probe{name: name + " at the sidecar's health port", why: CountOther, try: func(r *run) bool {
			r.close(r.health)
			taken := r.listen(u, pod4, HealthPort)
			f := r.called(outside4, HealthPort)
			r.close(taken)
			r.health = r.listen(theSidecar, pod4, HealthPort)
			return f != nil
		}})
	}
	return probes
}

// unreachable is an ICMP error about a packet that the pod sent: the header and eight bytes of it (RFC 792, RFC 4443).
func unreachable(about packet, code byte, mtu uint16) packet {
	inner := about.ip(about.transport())
	k := packet{src: outside4, dst: about.src, proto: icmp4, sport: 3, dport: uint16(code)}
	keep := 28
	if about.src.Is6() {
		k = packet{src: outside6, dst: about.src, proto: icmpv6, sport: 1, dport: uint16(code)}
		keep = 48
	}
	k.payload = append(binary.BigEndian.AppendUint16([]byte{0, 0}, mtu), inner[:min(len(inner), keep)]...)
	return k
}

func errorProbes() []probe {
	probes := both("an error that belongs to the sidecar's question", "", resolver4, resolver6, func(r *run, to netip.Addr) bool {
		f := r.udp(theSidecar, to, 53)
		must(unix.Connect(f.fd, sockaddr(to, 53)))
		_, _ = unix.Write(f.fd, []byte("question"))
		code := byte(3)
		if to.Is6() {
			code = 4
		}
		r.receive(unreachable(packet{src: own(to), dst: to, proto: udp4, sport: f.local.Port(), dport: 53, payload: []byte("question")}, code, 0))
		_, err := unix.Read(f.fd, make([]byte, 8))
		return errors.Is(err, unix.ECONNREFUSED)
	})
	probes = append(probes, both("an error that belongs to nothing", CountInput, outside4, outside6, func(r *run, to netip.Addr) bool {
		proto := unix.IPPROTO_ICMP
		if to.Is6() {
			proto = unix.IPPROTO_ICMPV6
		}
		fd := r.socket(workload, familyOf(to), unix.SOCK_RAW, proto)
		r.receive(unreachable(packet{src: own(to), dst: to, proto: udp4, sport: r.nextPort(), dport: 9}, 3, 0))
		return got(fd)
	})...)
	return append(probes,
		probe{name: "a smaller MTU on the way of an accepted call", try: func(r *run) bool {
			f := r.answered(workload, r.ingress, ip("1.0.0.1"), 8443)
			if f == nil {
				return false
			}
			sent := packet{src: pod4, dst: f.remote.Addr(), proto: tcp4, sport: 8443, dport: f.remote.Port(), seq: f.ack}
			r.receive(unreachable(sent, 4, 700))
			mtu, err := unix.GetsockoptInt(f.fd, unix.IPPROTO_IP, unix.IP_MTU)
			return err == nil && mtu == 700
		}},
		probe{name: "another user's raw error about an accepted call", why: CountOther, try: func(r *run) bool {
			f := r.called(outside4, 8443)
			if f == nil {
				return false
			}
			k := unreachable(packet{src: f.remote.Addr(), dst: pod4, proto: tcp4, sport: f.remote.Port(), dport: 8443, seq: f.seq}, 3, 0)
			return sendsRaw(workload, unix.IPPROTO_ICMP, string(k.transport()))(r, f.remote.Addr())
		}},
	)
}

func fragmentProbes() []probe {
	long := string(make([]byte, 3000))
	probes := both("a question of the sidecar's that is longer than the MTU", "", resolver4, resolver6, func(r *run, to netip.Addr) bool {
		f := r.udp(theSidecar, to, 53)
		r.sent()
		_ = unix.Sendto(f.fd, []byte(long), 0, sockaddr(to, 53))
		pieces := slices.DeleteFunc(r.sent(), func(k packet) bool { return k.dst != to || k.fragment == 0 && !k.more })
		return len(pieces) == 3
	})
	// pieces are those of a datagram, the second one behind 16 bytes.
	pieces := func(src, dst netip.Addr, from, to uint16) []packet {
		whole := packet{src: src, dst: dst, proto: udp4, sport: from, dport: to, payload: []byte("12345678" + "the rest")}
		body := whole.transport()
		first, second := whole, whole
		first.more, first.payload = true, nil
		second.fragment, second.payload = 16, body[16:]
		first.proto = udp4
		return []packet{first, second}
	}
	write := func(k packet, body []byte) []byte { return k.ip(body) }
	cut := func(src, dst netip.Addr, from, to uint16) [][]byte {
		both := pieces(src, dst, from, to)
		whole := packet{src: src, dst: dst, proto: udp4, sport: from, dport: to, payload: []byte("12345678" + "the rest")}
		body := whole.transport()
		return [][]byte{write(both[0], body[:16]), write(both[1], body[16:])}
	}
	return append(probes,
		probe{name: "a resolver's answer in pieces", try: func(r *run) bool {
			f := r.udp(theSidecar, resolver4, 53)
			r.asked(f, "question")
			for _, piece := range cut(resolver4, pod4, 53, f.local.Port()) {
				r.receiveIP(piece)
			}
			return got(f.fd)
		}},
		probe{name: "an unasked datagram in pieces", why: CountInput, try: func(r *run) bool {
			f := r.udp(workload, outside4, 9)
			for _, piece := range cut(outside4, pod4, 9, f.local.Port()) {
				r.receiveIP(piece)
			}
			return got(f.fd)
		}},
		probe{name: "another user's raw pieces", why: CountOther, try: func(r *run) bool {
			return sendsWhole(r, workload, cut(pod4, resolver4, r.nextPort(), 53)...)
		}},
		probe{name: "another user's raw pieces in a flow of the sidecar's", why: CountOther, try: func(r *run) bool {
			f := r.udp(theSidecar, resolver4, 53)
			r.asked(f, "question")
			r.receive(f.answer("answer"))
			return sendsWhole(r, workload, cut(pod4, resolver4, f.local.Port(), 53)...)
		}},
		probe{name: "another user's raw piece that is not the first", why: held, try: func(r *run) bool {
			return sendsWhole(r, workload, cut(pod4, resolver4, r.nextPort(), 53)[1])
		}},
	)
}

// receiveIP lets an IPv4 packet come in as it is.
func (p *pod) receiveIP(whole []byte) {
	_, err := unix.Write(p.tap, slices.Concat(podMAC, gatewayMAC, []byte{8, 0}, whole))
	must(err)
}

// answerProbes are of answers of the sidecar's in flows that it didn't begin, to addresses that it may call.
func answerProbes() []probe {
	probes := []probe{{name: "the sidecar's answer to a call over lo from outside's address", why: CountNoOwner, try: func(r *run) bool {
		listener, fd := r.listen(theSidecar, pod6, proxyPort), r.socket(workload, unix.AF_INET6, unix.SOCK_STREAM, 0)
		defer func() { r.close(fd); r.close(listener) }() // or both would send again
		must(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1))
		must(unix.Bind(fd, sockaddr(outside6, r.nextPort())))
		r.sent()
		_ = unix.Connect(fd, sockaddr(pod6, proxyPort))
		return slices.ContainsFunc(r.sent(), func(k packet) bool { return k.dst == outside6 && k.sport == proxyPort })
	}}}
	// A retransmitted answer is one, once the flow was forgotten.
	return append(probes, both("an answer of the sidecar's in no flow", CountNoOwner, outside4, outside6, func(r *run, to netip.Addr) bool {
		return sendsSegment(theSidecar, r.nextPort(), 443, syn|ackFlag)(r, to)
	})...)
}

func ownerlessProbes() []probe {
	probes := both("the kernel's own error about an answer for which nobody waits any more", CountNoOwner, resolver4, resolver6, func(r *run, to netip.Addr) bool {
		f := r.udp(theSidecar, to, 53)
		r.asked(f, "question")
		r.close(f.fd)
		r.receive(f.answer("answer"))
		return slices.ContainsFunc(r.sent(), func(k packet) bool { return k.dst == to && (k.proto == icmp4 || k.proto == icmpv6) })
	})
	return append(probes, []probe{
		// The kernel resets a connection that waited to be accepted when its listener closes. It came before the lock, so that it
		// is no accepted call, and its socket never had a file.
		{name: "a socket without a file", why: CountNoOwner, try: func(r *run) bool {
			r.sent()
			r.close(r.listening)
			return slices.ContainsFunc(r.sent(), func(k packet) bool { return k.sport == 7000 && k.flags&rst != 0 })
		}},
		// What an MPTCP socket sends is sent by one that the kernel made for it. Before Linux 6.5 that had no file, and was counted as no_owner.
		{name: "another user's MPTCP", why: CountOther, try: func(r *run) bool {
			return r.began(r.socket(workload, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), outside4, 443)
		}},
		{name: "another user's MPTCP from where the sidecar was", why: CountOther, try: func(r *run) bool {
			f := r.dial(theSidecar, outside4, 443)
			if f == nil {
				return false
			}
			// The socket goes, and nobody is told: what tracks the connection holds it for established.
			must(unix.SetsockoptInt(f.fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1))
			r.close(f.fd)
			fd := r.socket(workload, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
			must(unix.Bind(fd, sockaddr(pod4, f.local.Port())))
			return r.began(fd, outside4, 443)
		}},
	}...)
}

// began reports whether a connection's first packet went out.
func (r *run) began(fd int, to netip.Addr, port uint16) bool {
	r.sent()
	if err := unix.Connect(fd, sockaddr(to, port)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return false
	}
	return slices.ContainsFunc(r.sent(), func(k packet) bool { return k.dst == to && k.dport == port && k.flags&syn != 0 })
}
