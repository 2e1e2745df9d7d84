package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/holdfast-cni/holdfast/lock"
)

// prepare makes the paths of a node that are written to this run's own.
func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	return os.Mkdir("/run/netns", 0o755)
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

// within calls f on a thread that is in a network namespace, and ends the thread.
func within(path string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		file, err := os.Open(path)
		if err == nil {
			err = unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
			err = errors.Join(err, file.Close())
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func rules() (lock.Rules, error) {
	return lock.Build(lock.Config{
		Resolvers: []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00::a")}, UID: lock.SidecarUID, GID: lock.SidecarGID, HealthPort: lock.HealthPort,
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, IngressPorts: []uint16{8080},
	})
}
