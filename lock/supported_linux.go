package lock

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel floor: the oldest that nodes of Kubernetes 1.30 or later still run and that dumps what Apply reads back (5.7 for the
// flags of a chain).
const floorMajor, floorMinor = 5, 10

// probeLease is long enough for a slow machine to see it alive, and short enough to wait for its end.
const probeLease = 50 * time.Millisecond

// Supported fails with ErrKernel if this kernel can't hold the lock: it is older than the floor, or one of the lock's guarantees does
// not hold in a network namespace made for the question. It takes a fraction of a second, CAP_SYS_ADMIN and CAP_NET_ADMIN.
func Supported() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("read the kernel's release: %w", err)
	}
	if release := unix.ByteSliceToString(name.Release[:]); !atLeast(release, floorMajor, floorMinor) {
		return fmt.Errorf("linux %s is older than %d.%d: %w", release, floorMajor, floorMinor, ErrKernel)
	}
	if err := inFreshNamespace(tryLock); err != nil {
		return fmt.Errorf("try the lock in a fresh namespace: %w: %w", ErrKernel, err)
	}
	return nil
}

func atLeast(release string, major, minor int) bool {
	var gotMajor, gotMinor int
	if n, err := fmt.Sscanf(release, "%d.%d", &gotMajor, &gotMinor); n != 2 || err != nil {
		return false
	}
	return gotMajor > major || gotMajor == major && gotMinor >= minor
}

// tryLock does once what a pod's life consists of.
func tryLock(n *Namespace) error {
	rules, err := Build(Config{
		Resolvers: []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00::a")},
		UID:       SidecarUID, GID: SidecarGID, HealthPort: HealthPort,
	})
	if err != nil {
		return err
	}
	if _, err := n.Apply(rules); err != nil {
		return err
	}
	if _, err := n.Apply(rules); !errors.Is(err, ErrLocked) {
		return fmt.Errorf("a second lock over the first: got %v, want %w", err, ErrLocked)
	}
	if err := errors.Join(n.FirstLease(Lease), n.Renew(probeLease)); err != nil {
		return err
	}
	if err := n.FirstLease(Lease); !errors.Is(err, ErrTicketUsed) {
		return fmt.Errorf("a second first lease: got %v, want %w", err, ErrTicketUsed)
	}
	time.Sleep(2 * probeLease)
	if err := n.Renew(Lease); !errors.Is(err, ErrExpired) {
		return fmt.Errorf("a renewal after the end: got %v, want %w", err, ErrExpired)
	}
	return nil
}

// inFreshNamespace gives f a new network namespace, which ends with it.
func inFreshNamespace(f func(*Namespace) error) error {
	result := make(chan error, 1)
	go func() { result <- onOwnThread(f) }()
	return <-result
}

// onOwnThread enters a new namespace with a thread that ends with its goroutine, since it is never unlocked. The main thread does
// not end, and its namespace is that of /proc/self: it waits for another.
func onOwnThread(f func(*Namespace) error) error {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		defer runtime.UnlockOSThread()
		return inFreshNamespace(f)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	n, err := Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return err
	}
	return errors.Join(f(n), n.Close())
}
