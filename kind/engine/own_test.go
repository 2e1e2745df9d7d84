package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestStopNeverEndsAProcessThatTookTheNumber(t *testing.T) {
	folder := t.TempDir()
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	if err := save(folder, state{PID: other.Process.Pid, Started: "1", Name: "holdfast-test"}); err != nil {
		t.Fatal(err)
	}
	if running(folder) != nil {
		t.Error("another process is taken for our engine")
	}
	if err := Stop(folder); err != nil {
		t.Fatal(err)
	}
	if startTime(other.Process.Pid) == "" {
		t.Error("another process was ended")
	}
	if _, err := os.Stat(filepath.Join(folder, "engine.json")); !os.IsNotExist(err) {
		t.Errorf("engine.json is still there: %v", err)
	}
}

func TestStopOfNothingIsFine(t *testing.T) {
	if err := Stop(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestAnEndedProcessHasNoStartTime(t *testing.T) {
	if startTime(os.Getpid()) == "" {
		t.Error("this process has none")
	}
	ended := exec.Command("true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	pid := ended.Process.Pid
	if err := ended.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := startTime(pid); got != "" {
		t.Errorf("startTime = %q", got)
	}
}
