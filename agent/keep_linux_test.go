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

	"github.com/holdfast-cni/holdfast/lock"
)

// N12 N13: the stamp follows a renewal that the kernel accepted, and no other.
func TestOnlyARenewalThatSucceededIsStamped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	made, leave := make(chan string), make(chan struct{})
	defer close(leave)
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
	defer func() { _ = netns.Close() }()
	if _, err := netns.Apply(rules); err != nil {
		t.Fatal(err)
	}
	old := lock.Stamp{Release: "before", Rules: rules.Digest(), Beat: time.Second}
	if err := errors.Join(netns.FirstLease(lock.Lease), netns.WriteStamp(old)); err != nil {
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
	for _, err = netns.Remaining(); err == nil; _, err = netns.Remaining() {
		time.Sleep(time.Millisecond)
	}
	if o, broken, renewed := a.renew(p, time.Now()); o.code != Expired || !broken || renewed {
		t.Errorf("after the end: got %v, %v, %v", o, broken, renewed)
	}
	if s, err := netns.ReadStamp(); err != nil || s != old {
		t.Errorf("a renewal that failed was stamped: %v, %v", s, err)
	}
}
