package lock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestMonitorTellsOwnChangesFromOthers(t *testing.T) {
	p, _ := lockedPod(t)
	m, err := p.Monitor()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := errors.Join(p.FirstLease(Lease), p.Renew(Lease)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if c, err := m.Next(ctx); err != nil || !c.Own {
			t.Errorf("got %+v, %v; want an own change", c, err)
		}
	}
	other, err := Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := other.Renew(Lease); err != nil {
		t.Fatal(err)
	}
	if c, err := m.Next(ctx); err != nil || c.Own || c.PID == 0 || c.Process == "" {
		t.Errorf("got %+v, %v; want another's change", c, err)
	}
	cancel()
	if _, err := m.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

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
