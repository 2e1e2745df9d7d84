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
	"time"
)

// sinceFile is where it is kept since when each namespace is governed.
const sinceFile = "governed.json"

// since knows from when on each namespace is governed, as far as this node can know: no later than the first time that this node's
// agent saw it in plugin.json, nor than plugin.json's last change before that. It is remembered on disk, so that a later
// change of plugin.json, or the agent's next life, makes no pod look older than the governing.
type since struct {
	path string
	at   map[string]time.Time
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
func (s *since) observe(now, changed time.Time, namespaces []string) error {
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
	if maps.Equal(next, s.at) {
		return nil
	}
	s.at = next
	data, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("remember since when namespaces are governed: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("remember since when namespaces are governed: %w", err)
	}
	if err := writeSynced(filepath.Dir(s.path), sinceFile, data); err != nil {
		return fmt.Errorf("remember since when namespaces are governed: %w", err)
	}
	return nil
}

// namespaces are those that were governed when this was last known.
func (s *since) namespaces() []string { return slices.Sorted(maps.Keys(s.at)) }

// existed reports whether something made at that time was there before its namespace was governed.
func (s *since) existed(namespace string, made time.Time) bool {
	at, known := s.at[namespace]
	return known && made.Before(at)
}
