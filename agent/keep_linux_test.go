package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/watcher/feed"
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

// N14 N19: who changes a pod's lock has it cut off, though it be changed back before anybody can look; but neither a change of another
// table nor the agent's own renewals do, by another socket after an error included.
func TestALockThatWasChangedAndChangedBackIsCut(t *testing.T) {
	netns, rules := leased(t)
	record, err := netns.Record()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := openCuts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	a := &agent{
		release: "v1", started: time.Now(), cuts: kept, metrics: newMetrics(registry, func() state { return state{} }),
		teller: newTeller(nil), world: &world{pods: feed.New("pods", &corev1.Pod{}, feed.Origin{}, nil)},
	}
	p := &held{who: who{"c", "n", "p", "u"}, rules: rules.Digest(), netns: netns, record: &record}
	p.ctx, p.end = context.WithCancel(t.Context())
	heard := make(chan struct{})
	go func() { a.listen(p); close(heard) }()
	compared := func(times float64) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); count(t, registry, "holdfast_agent_verifications_total", "same") < times; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not compared %v times", times)
			}
		}
	}
	compared(1)
	if err := netns.FirstLease(lock.Lease); !errors.Is(err, lock.ErrTicketUsed) { // which has it connect anew
		t.Fatal(err)
	}
	for range 3 {
		if o, broken, renewed := a.renew(p, time.Now()); broken || !renewed {
			t.Fatalf("got %v, %v, %v", o, broken, renewed)
		}
	}
	other, own := &nftables.Table{Name: "other", Family: nftables.TableFamilyINet}, &nftables.Table{Name: lock.Table, Family: nftables.TableFamilyINet}
	change(t, netns, func(conn *nftables.Conn) { conn.AddTable(other) })
	compared(2) // so whatever came before was heard
	if p.cutting.Load() {
		t.Fatal("cut off for what the agent did, or for another table")
	}
	change(t, netns, func(conn *nftables.Conn) {
		chain := &nftables.Chain{Name: "more", Table: own}
		conn.AddChain(chain)
		conn.DelChain(chain)
	})
	select {
	case <-heard: // the pod is no longer kept
	case <-time.After(10 * time.Second):
		t.Error("not cut off")
	}
	a.group.Wait()
	if s, err := netns.ReadStamp(); err != nil || !strings.HasPrefix(s.Cut, "Tampered: process ") || !strings.HasSuffix(s.Cut, "and perhaps changed them back") {
		t.Errorf("stamped %q (%v)", s.Cut, err)
	}
	if err := netns.Verify(record); err != nil {
		t.Errorf("it was not changed back: %v", err)
	}
}

// count is a counter's value, of that value of its label.
func count(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// change is one transaction, by a socket of its own.
func change(t *testing.T, netns *lock.Namespace, does func(*nftables.Conn)) {
	t.Helper()
	file, err := os.Open(netns.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	conn, err := nftables.New(nftables.WithNetNSFd(int(file.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	does(conn)
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
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
