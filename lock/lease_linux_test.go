package lock

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// short is a lease that a test can wait for.
const short = 300 * time.Millisecond

// runOut waits until the lease has run out.
func (p *pod) runOut(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := p.Remaining(); errors.Is(err, ErrExpired) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the lease does not end")
}

// N13: live flows, TCP and UDP, both ways, end with the lease, and nothing brings them back.
func TestALeaseThatRunsOutCutsLiveFlowsForGood(t *testing.T) {
	p := newPod(t)
	r := &run{pod: p}
	p.do(r.before)
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(rules); err != nil {
		t.Fatal(err)
	}
	if err := p.FirstLease(Lease); err != nil {
		t.Fatal(err)
	}
	for _, one := range liveProbes() {
		if err := r.check(one, true); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		p.do(func() {
			if !writes(r, r.live) || !reads(r, r.live) || !r.asked(r.asks, "again") || !writes(r, r.in) || !reads(r, r.in) {
				t.Error("a live flow does not pass while there is a lease")
			}
		})
		if err := p.Renew(Lease); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Renew(short); err != nil {
		t.Fatal(err)
	}
	p.runOut(t)
	cut := func(when string) {
		t.Helper()
		for _, one := range endedProbes() {
			if err := r.check(one, true); err != nil {
				t.Errorf("%s: %s: %v", when, one.name, err)
			}
		}
	}
	cut("after the end")
	if err := p.Renew(Lease); !errors.Is(err, ErrExpired) || !errors.Is(err, unix.ENOENT) {
		t.Errorf("renewal after the end: got %v, want ErrExpired", err)
	}
	if err := p.FirstLease(Lease); !errors.Is(err, ErrTicketUsed) {
		t.Errorf("first lease after the end: got %v, want ErrTicketUsed", err)
	}
	if _, err := p.Apply(rules); !errors.Is(err, ErrLocked) {
		t.Errorf("another lock after the end: got %v, want ErrLocked", err)
	}
	cut("after all that")
}

// A restarted agent opens the namespace anew and knows nothing. (N12)
func TestReadoptionAfterARestart(t *testing.T) {
	p, record := lockedPod(t)
	if err := p.Renew(Lease); !errors.Is(err, ErrExpired) {
		t.Errorf("renewal before the first lease: got %v, want ErrExpired", err)
	}
	if err := p.FirstLease(Lease); err != nil {
		t.Fatal(err)
	}
	again, err := Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if err := again.FirstLease(Lease); !errors.Is(err, ErrTicketUsed) {
		t.Errorf("a second first lease: got %v, want ErrTicketUsed", err)
	}
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Apply(rules); !errors.Is(err, ErrLocked) {
		t.Errorf("a second lock: got %v, want ErrLocked", err)
	}
	if err := errors.Join(again.Verify(record), again.Renew(Lease)); err != nil {
		t.Errorf("the lock and its lease are not as they were: %v", err)
	}
	if left, err := again.Remaining(); err != nil || left <= Lease-30*time.Second || left > Lease {
		t.Errorf("%v are left (%v), want up to %v", left, err, Lease)
	}
}

// Renewals from many sides, up to the end and beyond it: what has ended stays ended. (N13)
func TestNoRenewalRevives(t *testing.T) {
	p, _ := lockedPod(t)
	if err := p.FirstLease(short); err != nil {
		t.Fatal(err)
	}
	p.runOut(t)
	var all sync.WaitGroup
	for range 4 {
		n, err := Open(p.path)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer func() { _ = n.Close() }()
			for range 10 {
				if err := n.Renew(Lease); !errors.Is(err, ErrExpired) {
					t.Errorf("got %v, want ErrExpired", err)
				}
			}
		})
	}
	all.Wait()
	if _, err := p.Remaining(); !errors.Is(err, ErrExpired) {
		t.Errorf("got %v, want ErrExpired", err)
	}
}

// Renewed all the time, a lease that is about to end either goes on or is over: it never comes back. Each round races its end. (N13)
func TestRenewalsAroundTheEnd(t *testing.T) {
	for range 5 {
		p, _ := lockedPod(t)
		const brief = 8 * time.Millisecond
		if err := p.FirstLease(brief); err != nil {
			t.Fatal(err)
		}
		over := false
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
			err := p.Renew(brief)
			switch {
			case err == nil && over:
				t.Fatal("a lease that was over was renewed")
			case errors.Is(err, ErrExpired):
				over = true
			case err != nil:
				t.Fatal(err)
			}
			time.Sleep(brief - 2*time.Millisecond)
		}
	}
}

// I1.
func TestALeaseIsRefusedWhereThereIsNoLock(t *testing.T) {
	p := newPod(t)
	_, remainingErr := p.Remaining()
	_, recordErr := p.Record()
	for act, err := range map[string]error{
		"first lease": p.FirstLease(Lease), "renewal": p.Renew(Lease), "remaining": remainingErr, "record": recordErr, "verify": p.Verify(sample()),
	} {
		if !errors.Is(err, ErrNotLocked) {
			t.Errorf("%s: got %v, want ErrNotLocked", act, err)
		}
	}
	if _, err := p.Apply(Rules{}); err == nil {
		t.Error("empty rules were applied")
	}
	for _, d := range []time.Duration{0, -1, time.Microsecond} {
		if err := p.FirstLease(d); err == nil || errors.Is(err, ErrNotLocked) {
			t.Errorf("a lease of %v: %v", d, err)
		}
	}
}

// The kernel counts a lease in jiffies (net/netfilter/nf_tables_api.c: get_jiffies_64), which no clock sets. The machine's own clock
// is not set by a test; a time namespace moves the clocks that could matter, since boot, years forth and a minute back. (N13)
func TestAClockThatIsSetChangesNoLease(t *testing.T) {
	p, _ := lockedPod(t)
	if err := p.FirstLease(Lease); err != nil {
		t.Fatal(err)
	}
	elsewhen := func(offset string) map[string]string {
		return help(t, func(f func()) { f() }, "clock", nil, "LOCK_TEST_PATH="+p.outerPath(), "LOCK_TEST_OFFSET="+offset)
	}
	for _, offset := range []string{"315360000", "-60"} {
		answers := elsewhen(offset)
		left, err := time.ParseDuration(answers["left"])
		if answers["renew"] != "done" || err != nil || left > Lease || left < Lease-30*time.Second {
			t.Errorf("with a clock %s s off: %v", offset, answers)
		}
		if answers["moved"] != "true" {
			t.Errorf("the clock was not moved: %v", answers)
		}
	}
	if err := p.Renew(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	p.runOut(t)
	for _, offset := range []string{"315360000", "-60"} {
		if answers := elsewhen(offset); answers["renew"] != "expired" {
			t.Errorf("after the end, with a clock %s s off: %v", offset, answers)
		}
	}
}

// outerPath is the path for another process.
func (p *pod) outerPath() string {
	return fmt.Sprintf("/proc/%d%s", os.Getpid(), p.path[len("/proc/self"):])
}

// renewElsewhen is a helper: it renews with clocks that are off. Its first part moves them, for the second, since only a child is in
// the new time namespace (time_namespaces(7)).
func renewElsewhen() map[string]string {
	if os.Getenv("LOCK_TEST_INNER") == "" {
		return relay()
	}
	n, err := Open(os.Getenv("LOCK_TEST_PATH"))
	if err != nil {
		return map[string]string{"open": err.Error()}
	}
	answers := map[string]string{"renew": told(n.Renew(Lease))}
	left, err := n.Remaining()
	if err == nil {
		answers["left"] = left.String()
	}
	now, err := Now()
	before, parseErr := time.ParseDuration(os.Getenv("LOCK_TEST_INNER"))
	offset, offsetErr := strconv.Atoi(os.Getenv("LOCK_TEST_OFFSET"))
	moved := now - before - time.Duration(offset)*time.Second
	answers["moved"] = strconv.FormatBool(errors.Join(err, parseErr, offsetErr) == nil && moved.Abs() < 30*time.Second)
	return answers
}
