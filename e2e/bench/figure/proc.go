package figure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tick is what /proc counts a process's time in (proc(5): sysconf(_SC_CLK_TCK), 100 on every architecture of Linux).
const tick = 10 * time.Millisecond

// CPU is the time that a process has used, in user space and in the kernel.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name, which may hold anything
	fields := strings.Fields(rest)
	const utime, stime = 14 - 3, 15 - 3 // proc_pid_stat(5) counts from 1, and the third is the first here
	if len(fields) <= stime {
		return 0, fmt.Errorf("read /proc/%d/stat: %q", pid, text)
	}
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	system, err := strconv.ParseInt(fields[stime], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	return time.Duration(user+system) * tick, nil
}

// Written is how many bytes a process has sent to any disk, or is about to.
func Written(pid int) (int64, error) {
	return number(fmt.Sprintf("/proc/%d/io", pid), "write_bytes:")
}

// RssAnon is what a process has allocated and touched, in bytes, without the pages of its binary; 0 for one that is gone.
func RssAnon(pid int) int64 {
	kib, err := number(fmt.Sprintf("/proc/%d/status", pid), "RssAnon:")
	if err != nil {
		return 0
	}
	return kib << 10
}

func number(file, key string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, key); found {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, key)
}

// Memory follows a process's RssAnon.
type Memory struct {
	mu   sync.Mutex
	most int64
	done chan struct{}
}

// Follow looks 20 times a second until Stop.
func Follow(pid int) *Memory {
	m := &Memory{done: make(chan struct{})}
	go func() {
		beat := time.NewTicker(50 * time.Millisecond)
		defer beat.Stop()
		for {
			now := RssAnon(pid)
			m.mu.Lock()
			m.most = max(m.most, now)
			m.mu.Unlock()
			select {
			case <-m.done:
				return
			case <-beat.C:
			}
		}
	}()
	return m
}

// Take returns the most since the last take.
func (m *Memory) Take() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.most
	m.most = 0
	return most
}

// Stop ends it.
func (m *Memory) Stop() { close(m.done) }
