// Command holdfast chains an enforcement CNI plugin behind a cluster's own, and keeps it chained.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes: 0 good, 1 a finding, 2 usage.
const (
	exitFinding = 1
	exitUsage   = 2
)

// errFinding ends a command that did its work and found something: there is no more to say.
var errFinding = errors.New("finding")

// usageError is a command line that cannot be.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole command, and its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFinding):
		return exitFinding
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "holdfast: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "holdfast: %v\n", err)
		return exitFinding
	}
}
