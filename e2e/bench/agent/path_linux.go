package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	links "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast-cni/holdfast/lock"
)

const (
	transfer = 16 << 20 // bytes, which take some milliseconds
	pings    = 1000     // of each pod, for one percentile of latencies
	worse    = 1.03
)

// way is a pod's to a server outside.
type way struct {
	path, server string
	stream, ping net.Conn  // of this round
	rates        []float64 // bytes a second
	latencies    []float64 // p99, seconds
}

// dataPath compares a locked pod's traffic with an unlocked one's. In each round they take turns by the millisecond, so that a busy moment
// falls on both alike: transfers in the order a, b, b, a, so that what grows or shrinks does too, and every other ping. Each round has
// connections of its own, since one may be faster than another for as long as it lives. What counts is the median of the rounds' ratios.
func dataPath(ctx context.Context, rounds int, t *table) (err error) {
	outside, err := newNetns("outside")
	if err != nil {
		return err
	}
	var ways [2]*way
	for i, pod := range []string{"unlocked", "locked"} {
		if ways[i], err = newWay(outside, pod, i+1, pod == "locked"); err != nil {
			return fmt.Errorf("the %s pod: %w", pod, err)
		}
	}
	unlocked, locked := ways[0], ways[1]
	for range rounds {
		a, b := unlocked, locked
		if rand.N(2) == 0 {
			a, b = b, a
		}
		if err := errors.Join(round(a, b), ctx.Err()); err != nil {
			return err
		}
	}
	rate, late := median(ratios(locked.rates, unlocked.rates)), median(ratios(locked.latencies, unlocked.latencies))
	t.row("TCP throughput, locked : unlocked", fmt.Sprintf("%.3f of %.1f Gbit/s", rate, median(unlocked.rates)*8/1e9), "at least 0.97", rate >= 2-worse)
	t.row("p99 latency, locked : unlocked", fmt.Sprintf("%.3f of %.0f µs", late, median(unlocked.latencies)*1e6), "at most 1.03", late <= worse)
	return nil
}

func ratios(of, to []float64) []float64 {
	all := make([]float64, len(of))
	for i := range of {
		all[i] = of[i] / to[i]
	}
	return all
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// newWay makes a pod with a link to the outside, and a server there.
func newWay(outside, pod string, i int, locked bool) (*way, error) {
	path, err := newNetns(pod)
	if err != nil {
		return nil, err
	}
	in, out, port := fmt.Sprintf("198.18.%d.2", i), fmt.Sprintf("1.1.%d.1", i), 7000+i
	if err := connect(outside, path, i, in, out); err != nil {
		return nil, err
	}
	if locked {
		if err := lease(path); err != nil {
			return nil, err
		}
	}
	if err := within(outside, func() error { return serve(fmt.Sprintf("%s:%d", out, port)) }); err != nil {
		return nil, err
	}
	return &way{path: path, server: fmt.Sprintf("%s:%d", out, port)}, nil
}

// dial connects as the sidecar does, and lets the windows grow.
func (w *way) dial() error {
	err := within(w.path, func() (err error) {
		// The kernel goes by the user that made the socket (fsuid of the file's credentials).
		for _, call := range []struct{ number, id uintptr }{{unix.SYS_SETFSGID, lock.SidecarGID}, {unix.SYS_SETFSUID, lock.SidecarUID}} {
			if _, _, errno := unix.RawSyscall(call.number, call.id, 0, 0); errno != 0 {
				return errno
			}
		}
		if w.stream, err = net.DialTimeout("tcp", w.server, 5*time.Second); err != nil {
			return err
		}
		w.ping, err = net.DialTimeout("tcp", w.server, 5*time.Second)
		return errors.Join(err, say(w.stream, 's'), say(w.ping, 'p'))
	})
	if err != nil {
		return err
	}
	return w.transfer(make([]byte, 1<<17))
}

// transfer sends, and waits until all has arrived.
func (w *way) transfer(buffer []byte) error {
	for range transfer / len(buffer) {
		if _, err := w.stream.Write(buffer); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(w.stream, buffer[:1])
	return err
}

func say(c net.Conn, b byte) error {
	if c == nil {
		return nil
	}
	_, err := c.Write([]byte{b})
	return err
}

// lease locks a pod and lends for the whole run: the agent's renewals are not what is measured here.
func lease(path string) error {
	n, err := lock.Open(path)
	if err != nil {
		return err
	}
	r, err := rules()
	if err != nil {
		return err
	}
	if _, err := n.Apply(r); err != nil {
		return err
	}
	return errors.Join(n.FirstLease(time.Hour), n.Close())
}

// connect makes a veth pair between both, with addresses on both ends and a route out.
func connect(outside, pod string, i int, in, out string) error {
	target, err := netns.GetFromPath(pod)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	host := fmt.Sprintf("v%d", i)
	err = within(outside, func() error {
		attrs := links.NewLinkAttrs()
		attrs.Name = host
		if err := links.LinkAdd(&links.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: links.NsFd(int(target))}); err != nil {
			return err
		}
		return up(host, out+"/32", in+"/32")
	})
	if err != nil {
		return err
	}
	return within(pod, func() error {
		if err := up("lo", "", ""); err != nil {
			return err
		}
		return up("eth0", in+"/32", out+"/32")
	})
}

func up(name, own, other string) error {
	link, err := links.LinkByName(name)
	if err != nil {
		return err
	}
	if err := links.LinkSetUp(link); err != nil || own == "" {
		return err
	}
	address, err := links.ParseAddr(own)
	if err != nil {
		return err
	}
	to, err := links.ParseIPNet(other)
	if err != nil {
		return err
	}
	return errors.Join(links.AddrAdd(link, address), links.RouteAdd(&links.Route{LinkIndex: link.Attrs().Index, Dst: to, Scope: links.SCOPE_LINK}))
}

// serve answers each byte, or each transfer once it is there, as a connection's first byte says.
func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				kind := make([]byte, 1)
				if _, err := io.ReadFull(c, kind); err != nil {
					return
				}
				buffer, answered := make([]byte, 1<<17), 1
				if kind[0] == 's' {
					answered = transfer
				}
				for read := 0; ; {
					n, err := c.Read(buffer)
					for read += n; err == nil && read >= answered; read -= answered {
						_, err = c.Write(buffer[:1])
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return nil
}

func round(a, b *way) error {
	if err := errors.Join(a.dial(), b.dial()); err != nil {
		return err
	}
	buffer := make([]byte, 1<<17)
	took := map[*way]time.Duration{}
	for _, w := range []*way{a, b, b, a} {
		began := time.Now()
		if err := w.transfer(buffer); err != nil {
			return err
		}
		took[w] += time.Since(began)
	}
	all := map[*way][]float64{}
	for range pings {
		for _, w := range []*way{a, b} {
			began := time.Now()
			if err := say(w.ping, 'x'); err != nil {
				return err
			}
			if _, err := io.ReadFull(w.ping, buffer[:1]); err != nil {
				return err
			}
			all[w] = append(all[w], time.Since(began).Seconds())
		}
	}
	for _, w := range []*way{a, b} {
		slices.Sort(all[w])
		w.rates = append(w.rates, 2*transfer/took[w].Seconds())
		w.latencies = append(w.latencies, all[w][pings*99/100])
	}
	return errors.Join(a.stream.Close(), a.ping.Close(), b.stream.Close(), b.ping.Close())
}
