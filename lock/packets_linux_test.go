package lock

import (
	"errors"
	"fmt"
	"testing"
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

func TestWithoutALockEverythingGetsThrough(t *testing.T) {
	for _, err := range newPod(t).through(nil, probes(), false) {
		t.Error(err)
	}
}

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
