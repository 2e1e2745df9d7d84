package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
)

// N12 N13: the stamp follows a renewal that the kernel accepted, and no other.
func TestOnlyARenewalThatSucceededIsStamped(t *testing.T) {
	netns, rules := leased(t)
	old := lock.Stamp{Release: "before", Rules: rules.Digest(), Beat: time.Second}
	if err := netns.WriteStamp(old); err != nil {
		t.Fatal(err)
	}
	a := &agent{release: "after", started: time.Now(), metrics: newMetrics(prometheus.NewRegistry(), func() state { return state{} })}
	p := &held{netns: netns, rules: rules.Digest()}
	if o, broken, renewed := a.renew(p, time.Now()); broken || !renewed {
		t.Fatalf("got %v, %v, %v", o, broken, renewed)
	}
	if s, err := netns.ReadStamp(); err != nil || s.Release != "after" || s.Rules != old.Rules || s.Beat <= old.Beat {
		t.Errorf("after a renewal: %v, %v", s, err)
	}
	if err := errors.Join(netns.WriteStamp(old), netns.Renew(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for _, err := netns.Remaining(); err == nil; _, err = netns.Remaining() {
		time.Sleep(time.Millisecond)
	}
	if o, broken, renewed := a.renew(p, time.Now()); o.code != Expired || !broken || renewed {
		t.Errorf("after the end: got %v, %v, %v", o, broken, renewed)
	}
	if s, err := netns.ReadStamp(); err != nil || s != old {
		t.Errorf("a renewal that failed was stamped: %v, %v", s, err)
	}
}

// N14: a pod that has an order is renewed by no ADD that is asked for again, while the kernel is still to be asked.
func TestAPodWithAnOrderIsNotRenewedByAnotherADD(t *testing.T) {
	netns, _ := leased(t)
	r := adopt.Request{ContainerID: "c", Namespace: "n", Name: "p", UID: "u", Device: netns.ID().Device, Inode: netns.ID().Inode}
	boot, err := adopt.Boot()
	if err != nil {
		t.Fatal(err)
	}
	r.Boot = boot
	a, p := &agent{}, &held{who: whoOf(r), netns: netns}
	renewed := func() bool {
		if err := netns.Renew(lock.Lease / 2); err != nil {
			t.Fatal(err)
		}
		err := a.repeat(p, r)
		left, lost := netns.Remaining()
		if lost != nil {
			t.Fatal(lost)
		}
		var refusal *adopt.Refusal
		if err != nil && (!errors.As(err, &refusal) || refusal.Code != string(CutBefore) || refusal.Retry) {
			t.Errorf("refused with %v", err)
		}
		return err == nil && left > lock.Lease/2
	}
	if !renewed() {
		t.Error("not renewed though nothing was ordered")
	}
	p.cutting.Store(true)
	if renewed() {
		t.Error("renewed though it is to be cut off")
	}
}

// leased is a namespace with a lock and a lease.
func leased(t *testing.T) (*lock.Namespace, lock.Rules) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	made, leave := make(chan string), make(chan struct{})
	t.Cleanup(func() { close(leave) })
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
		made <- fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		<-leave
	}()
	rules, err := lock.Build(lock.Config{Resolvers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, UID: lock.SidecarUID, GID: lock.SidecarGID, HealthPort: lock.HealthPort})
	if err != nil {
		t.Fatal(err)
	}
	netns, err := lock.Open(<-made)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	if _, err := netns.Apply(rules); err != nil {
		t.Fatal(err)
	}
	if err := netns.FirstLease(lock.Lease); err != nil {
		t.Fatal(err)
	}
	return netns, rules
}
