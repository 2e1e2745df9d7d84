package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memory follows a process's RssAnon: what it has allocated and touched, without the pages of its binary.
type memory struct {
	mu   sync.Mutex
	most int64
	done chan struct{}
}

func follow(pid int) *memory {
	m := &memory{done: make(chan struct{})}
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			m.mu.Lock()
			m.most = max(m.most, rssAnon(pid))
			m.mu.Unlock()
			select {
			case <-m.done:
				return
			case <-tick.C:
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

// rssAnon is in bytes; 0 for a process that is gone.
func rssAnon(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "RssAnon:"); found {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
