// Package command runs other programs for the kind clusters. Each gets a process group of its own, so that Ctrl-C reaches
// it through the context alone and cleaning up is not interrupted; what it printed is part of the error.
package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// New returns the command; when ctx ends, its whole process group is asked to end, and killed 20 s later. When this process
// is killed, the command is asked to end too.
func New(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// Run runs cmd. Its standard error goes to where cmd says, if it says so, and otherwise its end is in the error.
func Run(cmd *exec.Cmd) error {
	_, err := Output(cmd)
	return err
}

// Output runs cmd and returns its standard output without the white space around it.
func Output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	} else {
		cmd.Stderr = io.MultiWriter(cmd.Stderr, &stderr)
	}
	if err := cmd.Run(); err != nil {
		said := stderr.String()
		if strings.TrimSpace(said) == "" {
			said = stdout.String()
		}
		return "", fmt.Errorf("%s: %w: %s", describe(cmd), err, tail(said, 1500))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// describe names the command by its first words: enough to find it, without whole documents.
func describe(cmd *exec.Cmd) string {
	words := slices.Clone(cmd.Args[:min(len(cmd.Args), 7)])
	words[0] = filepath.Base(words[0])
	return tail(strings.Join(words, " "), 120)
}

// tail returns the end of text: programs say last what went wrong.
func tail(text string, limit int) string {
	text = strings.TrimSpace(text)
	if len(text) > limit {
		return "…" + text[len(text)-limit:]
	}
	return text
}
