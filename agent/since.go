package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// sinceFile is where it is kept since when each namespace is governed.
const sinceFile = "governed.json"

// since knows from when on each namespace is governed, as far as this node can know: no later than the first time that this node's
// agent saw it in plugin.json, nor than plugin.json's last change before that. It is remembered on disk, so that a later
// change of plugin.json, or the agent's next life, makes no pod look older than the governing.
type since struct {
	path string

	mu      sync.Mutex // whoever has it doesn't wait for the disk
	at      map[string]time.Time
	unsaved bool
}

// openSince reads what is remembered. What can't be read is an error, and forgotten, so that pods are rather spared than cut off (ADR 8).
func openSince(folder string) (*since, error) {
	s := &since{path: filepath.Join(folder, sinceFile), at: map[string]time.Time{}}
	data, err := readWhole(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s.at)
	}
	if err != nil || s.at == nil {
		s.at = map[string]time.Time{}
	}
	if err != nil {
		err = fmt.Errorf("read since when namespaces are governed: %w", err)
	}
	return s, err
}

// observe learns the namespaces that are governed now; changed is when the API server saw plugin.json change last, zero if unknown.
func (s *since) observe(now, changed time.Time, namespaces []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string]time.Time{}
	for _, namespace := range namespaces {
		at, known := s.at[namespace]
		if !known {
			at = now
			if !changed.IsZero() && changed.Before(now) {
				at = changed
			}
		}
		next[namespace] = at
	}
	if !maps.Equal(next, s.at) {
		s.at, s.unsaved = next, true
	}
}

// save writes what isn't on the disk yet. What fails is tried by the next. It is one caller's.
func (s *since) save() (err error) {
	s.mu.Lock()
	at, unsaved := s.at, s.unsaved // observe makes another map of what is to change
	s.unsaved = false
	s.mu.Unlock()
	if !unsaved {
		return nil
	}
	data, err := json.Marshal(at)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.path), 0o700)
	}
	if err == nil {
		err = writeSynced(filepath.Dir(s.path), sinceFile, data)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unsaved = true
		return fmt.Errorf("remember since when namespaces are governed: %w", err)
	}
	return nil
}

// namespaces are those that were governed when this was last known.
func (s *since) namespaces() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.at))
}

// existed reports whether something made at that time was there before its namespace was governed.
func (s *since) existed(namespace string, made time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.at[namespace]
	return known && made.Before(at)
}
