package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
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
	k := keep(t)
	k.compared(1)
	if err := k.netns.FirstLease(lock.Lease); !errors.Is(err, lock.ErrTicketUsed) { // which has it connect anew
		t.Fatal(err)
	}
	for range 3 {
		if o, broken, renewed := k.a.renew(k.p, time.Now()); broken || !renewed {
			t.Fatalf("got %v, %v, %v", o, broken, renewed)
		}
	}
	other, own := &nftables.Table{Name: "other", Family: nftables.TableFamilyINet}, &nftables.Table{Name: lock.Table, Family: nftables.TableFamilyINet}
	change(t, k.netns, func(conn *nftables.Conn) { conn.AddTable(other) })
	k.compared(2) // so whatever came before was heard
	if k.p.cutting.Load() {
		t.Fatal("cut off for what the agent did, or for another table")
	}
	change(t, k.netns, func(conn *nftables.Conn) {
		chain := &nftables.Chain{Name: "more", Table: own}
		conn.AddChain(chain)
		conn.DelChain(chain)
	})
	if s := k.cut(); !strings.HasPrefix(s, "Tampered: process ") || !strings.HasSuffix(s, "and perhaps changed them back") {
		t.Errorf("stamped %q", s)
	}
	if err := k.netns.Verify(*k.p.record); err != nil {
		t.Errorf("it was not changed back: %v", err)
	}
}

// N14: one whose namespace others change so much that it can't be followed is cut off: its lock may be one of the things they changed.
func TestAPodWhoseChangesCannotBeFollowedIsCut(t *testing.T) {
	k := keep(t)
	k.compared(1)
	unread, err := k.netns.Monitor() // a listener that comes to nothing meanwhile
	if err != nil {
		t.Fatal(err)
	}
	other := &nftables.Table{Name: "other", Family: nftables.TableFamilyINet}
	change(t, k.netns, func(conn *nftables.Conn) {
		set := &nftables.Set{Table: conn.AddTable(other), Name: "many", KeyType: nftables.TypeInteger}
		err := conn.AddSet(set, nil)
		for from := range 150 {
			elements := make([]nftables.SetElement, 1000)
			for i := range elements {
				elements[i].Key = binary.NativeEndian.AppendUint32(nil, uint32(1000*from+i))
			}
			err = errors.Join(err, conn.SetAddElements(set, elements))
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if err := k.a.hear(k.p, unread); !errors.Is(err, lock.ErrOverrun) {
		t.Errorf("heard %v", err)
	}
	if s := k.cut(); !strings.HasPrefix(s, "Tampered: so many rules were changed at once") {
		t.Errorf("stamped %q", s)
	}
}

// keeping is a pod that is kept by no more of an agent than it takes.
type keeping struct {
	t        *testing.T
	netns    *lock.Namespace
	a        *agent
	p        *held
	registry *prometheus.Registry
	ended    chan struct{}
}

func keep(t *testing.T) *keeping {
	t.Helper()
	netns, rules := leased(t)
	record, err := netns.Record()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := openCuts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k := &keeping{t: t, netns: netns, registry: prometheus.NewRegistry(), ended: make(chan struct{})}
	k.a = &agent{
		release: "v1", started: time.Now(), cuts: kept, metrics: newMetrics(k.registry, func() state { return state{} }),
		teller: newTeller(nil), world: &world{pods: feed.New("pods", &corev1.Pod{}, feed.Origin{}, nil)},
	}
	k.p = &held{who: who{"c", "n", "p", "u"}, rules: rules.Digest(), netns: netns, record: &record}
	k.p.ctx, k.p.end = context.WithCancel(t.Context())
	go func() { k.a.listen(k.p); close(k.ended) }()
	return k
}

// compared waits until the rules were found the same that often.
func (k *keeping) compared(times float64) {
	k.t.Helper()
	for end := time.Now().Add(10 * time.Second); count(k.t, k.registry, "holdfast_agent_verifications_total", "same") < times; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("not compared %v times", times)
		}
	}
}

// cut waits until the pod is no longer kept, and returns why it was cut off.
func (k *keeping) cut() string {
	k.t.Helper()
	select {
	case <-k.ended:
	case <-time.After(10 * time.Second):
		k.t.Error("not cut off")
		k.p.end()
	}
	k.a.group.Wait()
	s, err := k.netns.ReadStamp()
	if err != nil {
		k.t.Error(err)
	}
	return s.Cut
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
	conn, err := nftables.New(nftables.WithNetNSFd(int(file.Fd())), nftables.WithSockOptions(func(c *netlink.Conn) error { return c.SetWriteBuffer(8 << 20) }))
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
	rules, err := lock.Build(lock.Config{Resolvers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, UID: lock.SidecarUID, GID: lock.SidecarGID, HealthPort: lock.HealthPort})
	if err != nil {
		t.Fatal(err)
	}
	netns := unlocked(t)
	if _, err := netns.Apply(rules); err != nil {
		t.Fatal(err)
	}
	if err := netns.FirstLease(lock.Lease); err != nil {
		t.Fatal(err)
	}
	return netns, rules
}

// unlocked is a namespace in which nothing was done.
func unlocked(t *testing.T) *lock.Namespace {
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
	netns, err := lock.Open(<-made)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	return netns
}
