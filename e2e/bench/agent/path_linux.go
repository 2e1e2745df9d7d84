package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	links "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
	"github.com/holdfast-cni/holdfast/lock"
)

const (
	transfer = 16 << 20 // bytes, which take some milliseconds
	turns    = 1000     // of pings, in a round
	fours    = 5        // transfers, in a round
	worse    = 1.03
)

// way is a pod's to a server outside.
type way struct {
	path         string
	stream, ping net.Conn // of this round
}

// traffic is what one round measured of a pod: bytes a second, and how long each ping took.
type traffic struct {
	rate  float64
	pings figure.Samples
}

// dataPath compares locked pods' traffic with unlocked ones'. In each round one of each takes turns by the millisecond, so that a busy
// moment falls on both alike: transfers in the order a, b, b, a, so that what grows or shrinks does too, and every other ping. There are
// several of each, and each round has connections of its own, since one may be faster than another for as long as it lives. What counts
// is the median of the rounds' ratios, and of all pings p99.
func dataPath(ctx context.Context, rounds int, t *figure.Table) (err error) {
	node, err := newForwarder()
	if err != nil {
		return fmt.Errorf("the node between them: %w", err)
	}
	var unlocked, locked [4]*way
	for i := range unlocked {
		if unlocked[i], err = newWay(node, 2*i+1, false); err != nil {
			return fmt.Errorf("an unlocked pod: %w", err)
		}
		if locked[i], err = newWay(node, 2*i+2, true); err != nil {
			return fmt.Errorf("a locked pod: %w", err)
		}
	}
	var rates, ratios []float64
	var pings, lockedPings figure.Samples
	for range rounds {
		u, l := unlocked[rand.N(len(unlocked))], locked[rand.N(len(locked))]
		a, b := u, l
		if rand.N(2) == 0 {
			a, b = b, a
		}
		measured, err := round(a, b)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		rates, ratios = append(rates, measured[u].rate), append(ratios, measured[l].rate/measured[u].rate)
		pings, lockedPings = append(pings, measured[u].pings...), append(lockedPings, measured[l].pings...)
	}
	rate, late, middle := median(ratios), ratio(lockedPings, pings, 99), ratio(lockedPings, pings, 50)
	t.Judge("TCP throughput, locked : unlocked", fmt.Sprintf("%.3f of %.1f Gbit/s", rate, median(rates)*8/1e9), "at least 0.97", rate >= 2-worse)
	t.Judge("p99 latency, locked : unlocked", fmt.Sprintf("%.3f of %.3f ms", late, figure.MS(pings.At(99))), "at most 1.03", late <= worse)
	t.Note("median latency, locked : unlocked", fmt.Sprintf("%.3f of %.3f ms", middle, figure.MS(pings.At(50))))
	return nil
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

func ratio(of, to figure.Samples, percentile float64) float64 {
	return of.At(percentile).Seconds() / to.At(percentile).Seconds()
}

// newForwarder makes a node between the pods and the outside: it forwards, tracks connections and masquerades, as one does with kube-proxy
// and a simple network plugin.
func newForwarder() (node string, err error) {
	if node, err = newNetns("node"); err != nil {
		return "", err
	}
	outside, err := newNetns("outside")
	if err != nil {
		return "", err
	}
	if err := connect(node, outside, "uplink", server, gateway); err != nil {
		return "", err
	}
	if err := within(outside, func() error { return serve(net.JoinHostPort(server, port)) }); err != nil {
		return "", err
	}
	return node, within(node, func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "node"})
		c.AddRule(&nftables.Rule{Table: table, Exprs: []expr.Any{&expr.Masq{}}, Chain: c.AddChain(&nftables.Chain{
			Table: table, Name: "postrouting", Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
		})})
		return c.Flush()
	})
}

// The server's address is one that a sidecar may reach.
const server, gateway, port = "1.1.1.1", "1.1.1.2", "7000"

// newWay makes a pod behind the node, the i-th from 1.
func newWay(node string, i int, locked bool) (*way, error) {
	path, err := newNetns(fmt.Sprintf("pod%d", i))
	if err != nil {
		return nil, err
	}
	if err := connect(node, path, fmt.Sprintf("v%d", i), fmt.Sprintf("198.18.%d.2", i), fmt.Sprintf("198.18.%d.1", i)); err != nil {
		return nil, err
	}
	if locked {
		if err := lease(path); err != nil {
			return nil, err
		}
	}
	return &way{path: path}, nil
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
		if w.stream, err = net.DialTimeout("tcp", net.JoinHostPort(server, port), 5*time.Second); err != nil {
			return err
		}
		w.ping, err = net.DialTimeout("tcp", net.JoinHostPort(server, port), 5*time.Second)
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

// connect makes a veth pair between the node and what is behind it, with addresses on both ends and a route to everywhere.
func connect(node, behind, name, in, out string) error {
	target, err := netns.GetFromPath(behind)
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()
	err = within(node, func() error {
		attrs := links.NewLinkAttrs()
		attrs.Name = name
		if err := links.LinkAdd(&links.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: links.NsFd(int(target))}); err != nil {
			return err
		}
		return up(name, out, in)
	})
	if err != nil {
		return err
	}
	return within(behind, func() error {
		if err := errors.Join(up("lo", "", ""), up("eth0", in, out)); err != nil {
			return err
		}
		return links.RouteAdd(&links.Route{Gw: net.ParseIP(out)})
	})
}

// up gives a link an address, with a route to the other end's.
func up(name, own, other string) error {
	link, err := links.LinkByName(name)
	if err != nil {
		return err
	}
	if err := links.LinkSetUp(link); err != nil || own == "" {
		return err
	}
	address, err := links.ParseAddr(own + "/32")
	if err != nil {
		return err
	}
	to, err := links.ParseIPNet(other + "/32")
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

func round(a, b *way) (map[*way]traffic, error) {
	if err := errors.Join(a.dial(), b.dial()); err != nil {
		return nil, err
	}
	buffer := make([]byte, 1<<17)
	took, pings := map[*way]time.Duration{}, map[*way]figure.Samples{}
	for _, w := range slices.Repeat([]*way{a, b, b, a}, fours) {
		began := time.Now()
		if err := w.transfer(buffer); err != nil {
			return nil, err
		}
		took[w] += time.Since(began)
	}
	for range turns {
		for _, w := range []*way{a, b} {
			began := time.Now()
			if err := say(w.ping, 'x'); err != nil {
				return nil, err
			}
			if _, err := io.ReadFull(w.ping, buffer[:1]); err != nil {
				return nil, err
			}
			pings[w] = append(pings[w], time.Since(began))
		}
	}
	measured := map[*way]traffic{}
	for _, w := range []*way{a, b} {
		measured[w] = traffic{2 * fours * transfer / took[w].Seconds(), pings[w]}
	}
	return measured, errors.Join(a.stream.Close(), a.ping.Close(), b.stream.Close(), b.ping.Close())
}
