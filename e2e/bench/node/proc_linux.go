package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tick is what /proc counts a process's time in (proc(5): sysconf(_SC_CLK_TCK), 100 on every architecture of Linux).
const tick = 10 * time.Millisecond

// cpu is the time that a process has used, in user space and in the kernel.
func cpu(pid int) (time.Duration, error) {
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

// written is how many bytes a process has sent to any disk, or is about to.
func written(pid int) (int64, error) {
	return number(fmt.Sprintf("/proc/%d/io", pid), "write_bytes:")
}

// rssAnon is what a process has allocated and touched, in bytes, without the pages of its binary; 0 for one that is gone.
func rssAnon(pid int) int64 {
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

// memory follows a process's RssAnon.
type memory struct {
	mu   sync.Mutex
	most int64
	done chan struct{}
}

func follow(pid int) *memory {
	m := &memory{done: make(chan struct{})}
	go func() {
		beat := time.NewTicker(50 * time.Millisecond)
		defer beat.Stop()
		for {
			now := rssAnon(pid)
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

// take returns the most since the last take.
func (m *memory) take() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.most
	m.most = 0
	return most
}

func (m *memory) stop() { close(m.done) }

// trace is what of a file changes whenever anybody writes it, or its name, mode or owner (inode(7)).
type trace struct {
	inode           uint64
	size            int64
	written, status syscall.Timespec // mtime, ctime
}

// traces are those of everything below a directory.
func traces(root string) (map[string]trace, error) {
	all := map[string]trace{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var s syscall.Stat_t
		if err := syscall.Lstat(path, &s); err != nil {
			return fmt.Errorf("stat %s: %w", path, err)
		}
		all[path] = trace{s.Ino, s.Size, s.Mtim, s.Ctim}
		return nil
	})
	return all, err
}
