// Command demo tells on a terminal what Holdfast does, on a real API server and with the real binary. Each step shows its
// result and checks it, so the demo is a test too. It needs no root, no container engine and no network.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	// Without SIGPIPE a reader that goes away (make demo | head) would leave processes and folders behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

// run tells the story and cleans up, however it ends.
func run(ctx context.Context, out io.Writer) (err error) {
	began := time.Now()
	s := &story{teller: newTeller(out)}
	defer func() { err = errors.Join(err, s.close()) }()
	for i, step := range steps {
		s.begin(i+1, step.title)
		if err := s.take(ctx, step); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("step %d (%s): %w", i+1, step.title, err)
		}
	}
	if err := s.close(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ndemo: %d steps passed in %.0fs\n", len(steps), time.Since(began).Seconds())
	return nil
}
