package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside marks the process that runs in the namespaces.
const inside = "HOLDFAST_BENCH_ADD"

// The main thread stays where it is: /proc/self is its, and lock.Open refuses the network namespace of /proc/self.
func init() { runtime.LockOSThread() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		os.Exit(1) // it has said why
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("add", flag.ContinueOnError)
	rounds := flags.Int("rounds", 200, "how often each thing is measured")
	portmap := flags.String("portmap", "", "portmap's executable (hack/parts.sh portmap)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes network namespaces")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return errors.New("portmap needs nft, which is in Debian's package nftables: apt-get install nftables")
	}
	if folder := os.Getenv(inside); folder != "" {
		return measure(ctx, folder, *portmap, *rounds, stdout, stderr)
	}
	folder, err := os.MkdirTemp("", "bench-add-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	for name, path := range map[string]string{"holdfast-cni": "./cmd/holdfast-cni", "passthrough": "./e2e/bench/add/passthrough"} {
		fmt.Fprintf(stderr, "bench: building %s\n", name)
		// As make build does.
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(folder, name), path)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	again := exec.CommandContext(ctx, self, args...)
	again.Env = append(os.Environ(), inside+"="+folder)
	again.Stdout, again.Stderr = stdout, stderr
	// What is measured goes before whatever else the machine is busy with, so that the waiting isn't measured.
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0); err != nil {
		fmt.Fprintf(stderr, "bench: on a busy machine the numbers will be rough: no real-time priority: %v\n", err)
	}
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	return again.Run()
}
