package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReading(t *testing.T) {
	folder := t.TempDir()
	pipe, plain := filepath.Join(folder, "pipe"), filepath.Join(folder, "plain")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(plain, []byte("text"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f := &files{ctx: t.Context(), stdin: strings.NewReader("given")}
	for path, want := range map[string]string{plain: "text", "-": "given"} {
		if got, err := f.read(path); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	for path, want := range map[string]string{"-": "only one file", "/dev/zero": "/dev/zero: has more than", filepath.Join(folder, "none"): "none: no such file"} {
		if _, err := f.read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	waits := &files{ctx: ctx}
	if _, err := waits.read(pipe); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a pipe that nobody writes: got %v", err)
	}
}
