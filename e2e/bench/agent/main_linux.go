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
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
)

// inside marks the process that runs in the namespace; its value is the run's folder.
const inside = "HOLDFAST_BENCH_AGENT"

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

type options struct {
	few, many int
	settle    time.Duration
	window    time.Duration
	rounds    int
	holdfast  string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.IntVar(&o.few, "pods", 250, "pods of the first measurement; 0 for the data path alone")
	flags.IntVar(&o.many, "many", 1000, "pods of the second; 0 for none")
	flags.DurationVar(&o.settle, "settle", 20*time.Second, "how long the agent runs before it is measured")
	flags.DurationVar(&o.window, "window", time.Minute, "how long it is measured: each pod is verified once a minute")
	flags.IntVar(&o.rounds, "rounds", 200, "how often the data path is measured; 0 for not at all")
	flags.StringVar(&o.holdfast, "holdfast", "", "executable to measure; by default it is built")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes network namespaces")
	}
	if folder := os.Getenv(inside); folder != "" {
		return measure(ctx, folder, o, stdout, stderr)
	}
	folder, err := os.MkdirTemp("", "bench-agent-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if o.holdfast == "" {
		args = append(args, "-holdfast="+filepath.Join(folder, "holdfast"))
		fmt.Fprintln(stderr, "bench: building holdfast")
		// As make build does.
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(folder, "holdfast"), "./cmd/holdfast")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build holdfast: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	again := exec.CommandContext(ctx, self, args...)
	again.Env = append(os.Environ(), inside+"="+folder)
	again.Stdout, again.Stderr = stdout, stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	again.Cancel = func() error { return again.Process.Signal(syscall.SIGTERM) }
	return again.Run()
}

func measure(ctx context.Context, folder string, o options, stdout, stderr io.Writer) (err error) {
	if err := prepare(); err != nil {
		return err
	}
	ctrllog.SetLogger(logr.Discard())
	t := &figure.Table{}
	if o.rounds > 0 {
		fmt.Fprintln(stderr, "bench: the data path")
		if err := dataPath(ctx, o.rounds, t); err != nil {
			return err
		}
	}
	if o.few == 0 {
		return t.Print(stdout)
	}
	n, err := newNode(ctx, folder, o.holdfast, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	for _, count := range []int{o.few, o.many} {
		if count == 0 {
			continue
		}
		used, err := n.measure(ctx, count, o)
		if err != nil {
			return err
		}
		times := float64(max(1, count/o.few))
		t.Judge(fmt.Sprintf("agent, %d pods: CPU", count), fmt.Sprintf("%.2f %% of a core", used.cpu*100), fmt.Sprintf("at most %.0f %%", times), used.cpu*100 <= times)
		t.Judge(fmt.Sprintf("agent, %d pods: RssAnon", count), figure.MiB(used.memory), fmt.Sprintf("at most %.0f MiB", 40*times), used.memory > 0 && float64(used.memory) <= 40*times*(1<<20))
		t.Judge(fmt.Sprintf("agent, %d pods: renewed within 100 ms of when due", count), fmt.Sprintf("%.2f %% of %d", used.punctual*100, used.renewals), "at least 99 %", used.punctual >= 0.99)
		t.Judge(fmt.Sprintf("agent, %d pods: renewals in %v", count, o.window), fmt.Sprint(used.renewals), fmt.Sprintf("about %d", int(o.window.Seconds())/5*count),
			used.renewals >= int(o.window.Seconds())/5*count*95/100)
	}
	return t.Print(stdout)
}
