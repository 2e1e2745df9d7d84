package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/agent/contract"
	"github.com/holdfast-cni/holdfast/lock"
)

// agent stands in for the node agent: it does what that does in the kernel when it adopts a pod, and keeps the namespace open. The pod
// itself, which the agent holds in memory, is missing: there is no API server here.
type agent struct {
	mu      sync.Mutex
	pods    []*lock.Namespace
	records map[string]lock.Record // as the node agent keeps one of those that are alike
}

// forget closes what is open, between two measurements.
func (a *agent) forget() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, netns := range a.pods {
		errs = append(errs, netns.Close())
	}
	a.pods = nil
	return errors.Join(errs...)
}

func (a *agent) adopt(_ context.Context, r adopt.Request) error {
	netns, err := lock.Open(r.NetNS)
	if err != nil {
		return err
	}
	record, err := a.keep(netns, r.Record)
	if err != nil {
		return err
	}
	contract.Check(somePod(), contract.Policy{})
	if err := r.In(netns.ID().Device, netns.ID().Inode); err != nil {
		return err
	}
	if err := netns.Verify(record); err != nil {
		return err
	}
	if err := netns.FirstLease(lock.Lease); err != nil {
		return err
	}
	beat, err := lock.Now()
	if err != nil {
		return err
	}
	return netns.WriteStamp(lock.Stamp{Release: "bench", Rules: r.Rules, Beat: beat})
}

func (a *agent) keep(netns *lock.Namespace, data []byte) (record lock.Record, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods = append(a.pods, netns)
	record, known := a.records[string(data)]
	if known {
		return record, nil
	}
	if record, err = lock.ParseRecord(data); err == nil {
		a.records = map[string]lock.Record{string(data): record}
	}
	return record, err
}

// newNetns makes a network namespace and binds it to a path, as a runtime does.
func newNetns(name string) (string, error) {
	path := "/run/netns/" + name
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
		}
		made <- err
	}()
	if err := errors.Join(<-made, file.Close()); err != nil {
		return "", fmt.Errorf("make netns %s: %w", path, err)
	}
	return path, nil
}
