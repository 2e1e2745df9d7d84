package lock

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	links "github.com/vishvananda/netlink"
)

// N14, N18: a cut ends everything, whatever state the lock is in.
func TestCut(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *pod){
		"a locked pod": func(t *testing.T, p *pod) {
			if err := p.lockAndLend(); err != nil {
				t.Fatal(err)
			}
		},
		"a pod that got past the chain": func(*testing.T, *pod) {},
		"a lock that was deleted": func(t *testing.T, p *pod) {
			if err := p.lockAndLend(); err != nil {
				t.Fatal(err)
			}
			p.unlock()
		},
		"a lock without its sets": func(_ *testing.T, p *pod) {
			must(p.begin())
			p.nft.CreateTable(table())
			must(p.end("tamper", p.nft.Flush()))
		},
		"a forged cut that lets all pass": func(_ *testing.T, p *pod) {
			must(p.begin())
			forged := p.nft.CreateTable(&nftables.Table{Name: CutTable, Family: nftables.TableFamilyINet})
			must(p.addChains(forged, []chain{{"in", "prerouting", first, accept, nil}, {"else", "output", 5, accept, nil}}))
			must(p.end("tamper", p.nft.Flush()))
		},
		"somebody else's table that accepts first": func(_ *testing.T, p *pod) {
			must(p.begin())
			t := p.nft.CreateTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyINet})
			must(p.addChains(t, []chain{{"in", "prerouting", -1000, accept, []rule{{accept}}}, {"out", "output", -1000, accept, []rule{{accept}}}}))
			must(p.end("tamper", p.nft.Flush()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for what must not come
			p := newPod(t)
			r := &run{pod: p}
			p.do(r.before)
			prepare(t, p)
			if err := p.Cut("told to"); err != nil {
				t.Fatal(err)
			}
			wantCut(t, r)
			// A person with the rights for it sets the links up again: the table still drops.
			p.do(func() {
				p0, err := links.LinkByName("p0")
				must(errors.Join(err, links.LinkSetUp(p0)))
				for _, gateway := range []net.IP{gateway4.AsSlice(), gateway6.AsSlice()} {
					_ = links.NeighSet(&links.Neigh{LinkIndex: p0.Attrs().Index, State: links.NUD_PERMANENT, IP: gateway, HardwareAddr: gatewayMAC})
					_ = links.RouteReplace(&links.Route{LinkIndex: p0.Attrs().Index, Gw: gateway})
				}
			})
			wantCut(t, r)
			if err := p.Cut("another reason"); err != nil {
				t.Error(err)
			}
			if s, err := p.ReadStamp(); err != nil || s.Cut != "told to" {
				t.Errorf("the stamp says %v (%v), want the first reason", s, err)
			}
		})
	}
}

func (p *pod) lockAndLend() error {
	rules, err := Build(testConfig)
	if err != nil {
		return err
	}
	if _, err := p.Apply(rules); err != nil {
		return err
	}
	return p.FirstLease(Lease)
}

// untold are probes that tell nothing of a cut: their success is no packet, they wait, or their address went with its link.
var untold = []string{"fails at once", "reports a group", "talks to itself over IPv6"}

// wantCut tries every probe, and those that reach a pod with a lock least of all: nothing but loopback gets through.
func wantCut(t *testing.T, r *run) {
	t.Helper()
	for _, one := range probes() {
		if one.phase == ended || slices.ContainsFunc(untold, func(part string) bool { return strings.Contains(one.name, part) }) {
			continue
		}
		var passed bool
		r.do(func() {
			defer func() {
				if recover() != nil {
					passed = false // no route, no link
				}
			}()
			passed = one.try(r)
		})
		if local := strings.Contains(one.name, "talks to itself"); passed != local {
			t.Errorf("%s: got through: %v", one.name, passed)
		}
	}
	if err := r.Renew(Lease); !errors.Is(err, ErrExpired) && !errors.Is(err, ErrNotLocked) {
		t.Errorf("renewal: got %v", err)
	}
	if err := r.FirstLease(Lease); !errors.Is(err, ErrTicketUsed) && !errors.Is(err, ErrNotLocked) {
		t.Errorf("first lease: got %v", err)
	}
}

// N14.
func TestACutTakesLinksAndConnections(t *testing.T) {
	p := newPod(t)
	if err := p.lockAndLend(); err != nil {
		t.Fatal(err)
	}
	r := &run{pod: p}
	p.do(func() {
		if r.dial(theSidecar, outside4, 443) == nil || r.dial(theSidecar, outside6, 443) == nil {
			t.Error("no connection to cut")
		}
	})
	connections := func() (n int) {
		p.do(func() {
			for _, family := range []links.InetFamily{links.InetFamily(2), links.InetFamily(10)} {
				flows, err := links.ConntrackTableList(links.ConntrackTable, family)
				must(err)
				n += len(flows)
			}
		})
		return n
	}
	if connections() < 2 {
		t.Errorf("%d connections are tracked before the cut", connections())
	}
	if err := p.Cut("  a reason\nof two lines "); err != nil {
		t.Fatal(err)
	}
	if n := connections(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	p.do(func() {
		all, err := links.LinkList()
		must(err)
		for _, link := range all {
			if up := link.Attrs().Flags&net.FlagUp != 0; up != (link.Attrs().Name == "lo") {
				t.Errorf("link %s: up %v", link.Attrs().Name, up)
			}
		}
	})
	if s, err := p.ReadStamp(); err != nil || s.Cut != "a reason of two lines" || s.Release != "" {
		t.Errorf("the stamp says %v (%v)", s, err)
	}
}
