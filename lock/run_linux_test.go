package lock

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	links "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// testConfig is what the packet tests lock a pod with.
var testConfig = Config{
	Resolvers:    []netip.Addr{resolver4, resolver6},
	AllowPrivate: []netip.Prefix{p("10.1.0.0/16"), p("fd00:244::98/127"), p("fd00:10::/48")},
	Refuse:       []netip.Prefix{p("9.9.9.0/24"), p("2620:fe::/48")},
	UID:          SidecarUID, GID: SidecarGID,
	HealthPort: HealthPort, IngressPorts: []uint16{8443},
}

// proxyPort is one on which the sidecar listens for the pod alone.
const proxyPort = 3128

var (
	resolver4, resolver6 = ip("10.96.0.10"), ip("fd00:96::a")
	// neighbour6 is allowed and on the pod's link, so that neighbour discovery has to find it.
	allowed4, allowed6, neighbour6 = ip("10.1.2.3"), ip("fd00:10::5"), ip("fd00:244::99")
	private4, private6             = ip("10.9.9.9"), ip("fd00:9::9")
)

// run is one course through the probes: what was there before the lock, then each phase of the lock's life.
type run struct {
	*pod
	// listening has a connection from before the lock that nobody has accepted, so that its socket has no file.
	listening, health, ingress int
	// old are connections from before the lock, to the health port and to an ingress port.
	old     []*flow
	counted map[string]Counter
	// live are the sidecar's connections, made while there was a lease.
	live *flow
	asks *flow
	in   *flow
}

// flow is one connection, seen from the rest of the world.
type flow struct {
	fd            int
	remote, local netip.AddrPort
	seq, ack      uint32 // what the remote sends next, and what it expects next
}

func (f *flow) packet(flags byte, payload string) packet {
	return packet{
		src: f.remote.Addr(), dst: f.local.Addr(), proto: tcp4, sport: f.remote.Port(), dport: f.local.Port(),
		seq: f.seq, ack: f.ack, flags: flags, payload: []byte(payload),
	}
}

// mine are the packets of the flow that the pod sent.
func (f *flow) mine(sent []packet) []packet {
	return slices.DeleteFunc(sent, func(k packet) bool {
		return k.dst != f.remote.Addr() || k.sport != f.local.Port() || k.dport != f.remote.Port()
	})
}

// sends reports whether the pod sent a segment of the flow with all of the flags.
func (f *flow) sends(sent []packet, flags byte) bool {
	return slices.ContainsFunc(f.mine(sent), func(k packet) bool { return k.flags&flags == flags })
}

// dial connects as the user, and is nil if no SYN came out. The world answers.
func (r *run) dial(u user, to netip.Addr, port uint16) *flow {
	f := &flow{local: netip.AddrPortFrom(own(to), r.nextPort()), remote: netip.AddrPortFrom(to, port), seq: 1000}
	f.fd = r.socket(u, familyOf(to), unix.SOCK_STREAM, 0)
	must(unix.Bind(f.fd, sockaddr(any0(to), f.local.Port())))
	r.sent()
	_ = unix.Connect(f.fd, sockaddr(to, port))
	for _, k := range f.mine(r.sent()) {
		if k.flags&syn != 0 {
			f.ack = k.seq + 1
			r.receive(f.packet(syn|ackFlag, ""))
			f.seq++
			return f
		}
	}
	return nil
}

// called is a connection from outside to the port of the pod, nil if the pod did not answer.
func (r *run) called(from netip.Addr, port uint16) *flow {
	f := &flow{fd: -1, remote: netip.AddrPortFrom(from, r.nextPort()), local: netip.AddrPortFrom(own(from), port), seq: 5000}
	r.sent()
	r.receive(f.packet(syn, ""))
	f.seq++
	for _, k := range f.mine(r.sent()) {
		if k.flags == syn|ackFlag {
			f.ack = k.seq + 1
			r.receive(f.packet(ackFlag, ""))
			return f
		}
	}
	return nil
}

// listen opens a listener of the user on every address of the family.
func (r *run) listen(u user, a netip.Addr, port uint16) int {
	fd := r.socket(u, familyOf(a), unix.SOCK_STREAM, 0)
	if a.Is6() {
		must(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1))
	}
	must(unix.Bind(fd, sockaddr(any0(a), port)))
	must(unix.Listen(fd, 16))
	return fd
}

// accept takes, as the user, what waits at the listener.
func (r *run) accept(u user, listener int) int {
	var fd int
	var err error
	u.do(func() { fd, _, err = unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC) })
	if err != nil {
		return -1
	}
	r.open = append(r.open, fd)
	return fd
}

// udp opens a socket of the user, bound to a port of its own.
func (r *run) udp(u user, to netip.Addr, port uint16) *flow {
	f := &flow{local: netip.AddrPortFrom(own(to), r.nextPort()), remote: netip.AddrPortFrom(to, port)}
	f.fd = r.socket(u, familyOf(to), unix.SOCK_DGRAM, 0)
	must(unix.Bind(f.fd, sockaddr(any0(to), f.local.Port())))
	return f
}

// asked reports whether the datagram came out.
func (r *run) asked(f *flow, payload string) bool {
	r.sent()
	_ = unix.Sendto(f.fd, []byte(payload), 0, sockaddr(f.remote.Addr(), f.remote.Port()))
	return len(f.mine(r.sent())) > 0
}

func (f *flow) answer(payload string) packet {
	return packet{src: f.remote.Addr(), dst: f.local.Addr(), proto: udp4, sport: f.remote.Port(), dport: f.local.Port(), payload: []byte(payload)}
}

// got reports whether the socket has something to read.
func got(fd int) bool {
	n, err := unix.Read(fd, make([]byte, 4096))
	return err == nil && n > 0
}

// before makes what is there when the lock comes.
func (r *run) before() {
	r.listening = r.listen(workload, pod4, 7000)
	if r.called(outside4, 7000) == nil {
		panic("an open pod does not answer")
	}
	r.health = r.listen(theSidecar, pod4, HealthPort)
	r.listen(theSidecar, pod6, HealthPort)
	r.ingress = r.listen(workload, pod4, 8443)
	r.listen(workload, pod4, 8080)
	r.old = []*flow{r.answered(theSidecar, r.health, outside4, HealthPort), r.answered(workload, r.ingress, outside4, 8443)}
	r.live, r.asks, r.in = nil, nil, nil
}

// reset makes the pod as it was made.
func (p *pod) reset() {
	p.do(p.closeAll)
	p.unlock()
	p.do(func() {
		must(links.ConntrackTableFlush(links.ConntrackTable))
		p.forget()
		p.sent()
	})
	p.port = 20000 + (p.port-20000)%20000
}

// forget removes the neighbours that were looked for.
func (p *pod) forget() {
	p0, err := links.LinkByName("p0")
	must(err)
	_ = links.NeighDel(&links.Neigh{LinkIndex: p0.Attrs().Index, IP: neighbour6.AsSlice(), Family: unix.AF_INET6})
}

// unlock removes the lock, as nobody but a test does.
func (p *pod) unlock() {
	must(p.begin())
	p.nft.AddTable(table())
	p.nft.DelTable(table())
	must(p.end("unlock", p.nft.Flush()))
}

// expire ends the lease at once.
func (p *pod) expire() {
	must(p.begin())
	t := table()
	t.Flags = 0
	p.nft.FlushSet(aliveSet(t))
	must(p.end("expire", p.nft.Flush()))
}

// eventually waits for what the kernel does from a timer.
func eventually(f func() bool) bool {
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f() {
			return true
		}
	}
	return false
}

func (p probe) String() string { return fmt.Sprintf("%s: %s", p.phase, p.name) }
