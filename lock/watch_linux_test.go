package lock

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A foreign change is heard whatever came right before it; what is the Namespace's own wakes nobody. (I1)
func TestMonitorHearsOthersAlone(t *testing.T) {
	p, _ := lockedPod(t)
	m, err := p.Monitor()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	other, err := Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	heard := func() {
		t.Helper()
		if c, err := m.Next(ctx); err != nil || c.PID == 0 || c.Process == "" {
			t.Errorf("got %+v, %v; want another's change", c, err)
		}
	}
	if err := errors.Join(p.FirstLease(Lease), p.Renew(Lease), other.Renew(Lease)); err != nil {
		t.Fatal(err)
	}
	heard()
	if err := errors.Join(other.Renew(Lease), p.Renew(Lease), p.Renew(Lease), other.Renew(Lease), p.Renew(Lease)); err != nil {
		t.Fatal(err)
	}
	heard()
	heard()
	quiet(t, m)
	cancel()
	if _, err := m.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// After an error a Namespace has another socket. What that does is heard as others' changes are, since it must never be the other way
// round: nobody gets the address of the one before while there is a Monitor that leaves it out. (I1)
func TestMonitorOutlivesASocket(t *testing.T) {
	p, _ := lockedPod(t)
	m, err := p.Monitor()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.FirstLease(Lease); err != nil {
		t.Fatal(err)
	}
	before := p.netfilter.port
	must(p.begin())
	if p.end("fail", errors.New("a test")) == nil || p.netfilter != nil {
		t.Fatal("the sockets are still open")
	}
	take := func() (err error) {
		p.do(func() {
			s, socketErr := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
			must(socketErr)
			err = errors.Join(unix.Bind(s, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: before}), unix.Close(s))
		})
		return err
	}
	if err := take(); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("another gets the address of the first socket: %v", err)
	}
	quiet(t, m)
	if err := p.Renew(Lease); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := m.Next(ctx); err != nil {
		t.Errorf("a change by the second socket: %v", err)
	}
	if changed, err := p.Changed(); changed || err != nil {
		t.Errorf("changed %v (%v)", changed, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := take(); err != nil {
		t.Errorf("the address is held for ever: %v", err)
	}
}

// quiet makes sure that nothing is to be heard.
func quiet(t *testing.T, m *Monitor) {
	t.Helper()
	must(m.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)))
	if c, err := m.Next(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %+v, %v; want nothing", c, err)
	}
	must(m.conn.SetReadDeadline(time.Time{}))
}

// I1.
func TestCountersSayWhy(t *testing.T) {
	p := newPod(t)
	if c, err := p.Counters(); err != nil || len(c) != 0 {
		t.Errorf("without a lock: %v, %v", c, err)
	}
	if err := p.lockAndLend(); err != nil {
		t.Fatal(err)
	}
	r := &run{pod: p}
	p.do(func() { r.asked(r.udp(workload, outside4, 53), "x") })
	if c, err := p.Counters(); err != nil || len(c) != 7 || c[CountOther] != (Counter{1, 29}) {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestThisKernelIsSupported(t *testing.T) {
	needRoot(t)
	if err := Supported(); err != nil {
		t.Error(err)
	}
	for release, want := range map[string]bool{
		"5.10.0": true, "5.10": true, "6.18.44-fc-v782": true, "10.0": true, "5.9.16": false, "4.18.0-553.el8": false, "": false, "new": false,
	} {
		if atLeast(release, floorMajor, floorMinor) != want {
			t.Errorf("%q: not %v", release, want)
		}
	}
}
