package lock

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// errNoRules means that the kernel did not take the rules: a mutant that could never be.
var errNoRules = errors.New("the kernel refuses the rules")

// through runs all probes against the rules, none without, and gives what each found wrong. It stops at the first if told to.
func (p *pod) through(rules *Rules, all []probe, stop bool) []error {
	p.reset()
	r := &run{pod: p}
	p.do(r.before)
	if rules != nil {
		if err := p.lockWith(*rules); err != nil {
			return []error{fmt.Errorf("%w: %w", errNoRules, err)}
		}
	}
	var wrong []error
	phase := unleased
	for _, one := range all {
		if one.phase != phase {
			phase = one.phase
			if err := p.turn(rules, phase); err != nil {
				return append(wrong, err)
			}
		}
		if err := r.check(one, rules != nil); err != nil {
			if wrong = append(wrong, fmt.Errorf("%v: %w", one, err)); stop {
				break
			}
		}
	}
	return wrong
}

// lockWith applies rules that may not be what the lock says they are.
func (p *pod) lockWith(rules Rules) error {
	must(p.begin())
	chains, err := encodedChains(rules.chains)
	if err == nil {
		_, err = p.create(rules, chains)
	}
	return p.end("lock", err)
}

func (p *pod) turn(rules *Rules, phase string) error {
	switch {
	case rules == nil:
	case phase == lent:
		return p.FirstLease(Lease)
	case phase == ended:
		p.expire()
	}
	return nil
}

func (r *run) check(one probe, locked bool) error {
	counts := locked && one.why != ""
	if counts && r.counted == nil {
		r.count()
	}
	before := r.counted[one.why].Packets
	var passed bool
	r.do(func() { passed = one.try(r) })
	if counts {
		r.count()
	} else {
		r.counted = nil
	}
	switch want := one.why == "" || !locked && one.why != held; {
	case passed != want && want:
		return fmt.Errorf("did not get through")
	case passed != want:
		return fmt.Errorf("got through")
	case counts && r.counted[one.why].Packets == before && one.why != held:
		return fmt.Errorf("was not counted as %s", one.why)
	}
	return nil
}

// count reads the counters. What was read after one probe holds before the next, unless that one may count without being asked.
func (r *run) count() {
	all, err := r.Counters()
	must(err)
	r.counted = all
}

// I2.
func TestWithoutALockEverythingGetsThrough(t *testing.T) {
	for _, err := range newPod(t).through(nil, probes(), false) {
		t.Error(err)
	}
}

// I1, N13.
func TestPackets(t *testing.T) {
	p := newPod(t)
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	all := probes()
	for _, err := range p.through(&rules, all, false) {
		t.Error(err)
	}
	t.Logf("%d probes", len(all))
}

// A SYN without a user, in a connection that began with the sidecar's: both ends connected at once, so that the kernel sends the SYN again
// from a socket whose file is closed. Nothing else here has the kernel send one, and it takes a second: the mutants do without. (I1)
func TestNobodyBeginsAgainWhereTheSidecarWas(t *testing.T) {
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		rules   Rules
		through bool
	}{{"the lock", rules, false}, {"the lock without noSYN", rules.without(noSYN{}), true}} {
		p := newPod(t)
		r := &run{pod: p}
		// Reports of the groups of its IPv6 addresses would be counted too.
		p.do(func() { must(os.WriteFile("/proc/sys/net/ipv6/conf/p0/disable_ipv6", []byte("1"), 0)) })
		if err := errors.Join(p.lockWith(test.rules), p.FirstLease(Lease)); err != nil {
			t.Fatal(err)
		}
		seen, before := false, Counter{}
		p.do(func() {
			f := &flow{local: netip.AddrPortFrom(pod4, r.nextPort()), remote: netip.AddrPortFrom(outside4, 443), seq: 1000}
			fd := r.socket(theSidecar, unix.AF_INET, unix.SOCK_STREAM, 0)
			must(unix.Bind(fd, sockaddr(pod4, f.local.Port())))
			_ = unix.Connect(fd, sockaddr(outside4, 443))
			if len(f.mine(r.sent())) == 0 {
				panic("the sidecar doesn't connect")
			}
			call := f.packet(syn, "")
			call.full = true // so that no FIN follows the close
			r.receive(call)
			r.close(fd)
			r.sent()
			r.count()
			before = r.counted[CountNoOwner]
			seen = eventually(func() bool {
				r.count()
				return slices.ContainsFunc(f.mine(r.sent()), func(k packet) bool { return k.flags&syn != 0 }) || r.counted[CountNoOwner] != before
			})
			if !seen {
				panic("the kernel doesn't send the SYN again")
			}
			seen = r.counted[CountNoOwner] == before
		})
		if seen != test.through {
			t.Errorf("%s: a SYN without a user got through: %t", test.name, seen)
		}
	}
}

// without takes a kind of statement out of every rule.
func (r Rules) without(what statement) Rules {
	for i, c := range r.chains {
		for j, one := range c.rules {
			r = r.withRule(i, j, slices.DeleteFunc(slices.Clone(one), func(s statement) bool { return s == what }))
		}
	}
	return r
}
