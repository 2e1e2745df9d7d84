// Command node measures install-cni on one node: the real binary, a real containerd and a real API server. It prints one table
// and exits 1 if a goal is missed. It needs root, for containerd, and changes nothing outside a folder of its own.
//
// A machine is fast or slow, busy or idle: the time of a repair is judged as a ratio of two things measured in turn in the same
// run, and the absolute numbers stand beside it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
)

func main() {
	quiet := flag.Duration("quiet", time.Minute, "how long nothing happens while the quiet node is measured")
	only := flag.String("only", "", "measure only what is named so: repair, quiet, hostile, many; all by default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // the proxy's clients end when they like; a lost terminal must not keep from cleaning up
	err := run(ctx, &bench{quietTime: *quiet, out: os.Stderr}, *only, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// bench is one run: what all nodes of it share, and the rows measured so far.
type bench struct {
	quietTime time.Duration
	cluster   *cluster
	folder    string
	parts     parts
	out       io.Writer // progress
	table     figure.Table
}

// part is one thing that is measured, under the name by which it can be asked for alone.
type part struct {
	name, what string
	take       func(*bench, context.Context) error
}

func run(ctx context.Context, b *bench, only string, stdout io.Writer) (err error) {
	if os.Getuid() != 0 {
		return errors.New("containerd needs root: sudo make bench-node")
	}
	discard := logr.FromSlogHandler(slog.DiscardHandler)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.SetLogger(discard)
	ctrllog.SetLogger(discard)
	if b.folder, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, b.close()) }()
	repair := func(by chaining.Strategy) func(*bench, context.Context) error {
		return func(b *bench, ctx context.Context) error { return b.repair(ctx, by) }
	}
	measured := 0
	for _, p := range []part{
		{"", "building the binaries, starting a control plane, installing the chart", (*bench).start},
		{"repair", "repairs of a drop-in", repair(chaining.ByDropin)},
		{"repair", "repairs of a list", repair(chaining.ByList)},
		{"quiet", "a quiet node", (*bench).quiet},
		{"hostile", "a hostile neighbour", (*bench).hostile},
		{"many", "one node of many", (*bench).many},
	} {
		if p.name != "" && only != "" && p.name != only {
			continue
		}
		measured++
		began := time.Now()
		if err := p.take(b, ctx); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("%s: %w", p.what, err)
		}
		fmt.Fprintf(b.out, "bench: %s: done in %.0f s\n", p.what, time.Since(began).Seconds())
	}
	if measured < 2 {
		return fmt.Errorf("-only %q: there is no such part", only)
	}
	return b.table.Print(stdout)
}

// close ends what start began, and makes sure that nothing is left.
func (b *bench) close() error {
	var errs []error
	if b.cluster != nil {
		errs = append(errs, b.cluster.close())
	}
	// A runtime may mount something, and what is mounted must not be removed.
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && strings.Contains(string(mounts), b.folder) {
		err = fmt.Errorf("something is still mounted in %s", b.folder)
	}
	if err == nil {
		err = os.RemoveAll(b.folder)
	}
	return errors.Join(append(errs, err)...)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
