// Package product builds Holdfast's own binary and runs it outside a cluster as the chart runs it inside: with the arguments
// of the chart's own pods, and the rights of their ServiceAccounts.
package product

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-cni/holdfast/e2e/controlplane"
)

// Build compiles ./cmd/holdfast into the folder and returns the binary's path. An end of the context ends the compilers too;
// what they leave is in the folder.
func Build(ctx context.Context, folder string) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(folder, "holdfast")
	// No version stamp: git refuses a tree that belongs to somebody else, and nobody asks this binary.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "./cmd/holdfast")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOTMPDIR="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build ./cmd/holdfast: %w: %s", err, said.Bytes())
	}
	return binary, nil
}
