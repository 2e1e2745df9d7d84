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
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// forgetAfter is how long the UID of a pod that is gone is still remembered. UIDs of the API server never come again; that of a
// static pod does, when its file is put back.
const forgetAfter = 24 * time.Hour

// writesAtOnce bounds how many files are written at the same time.
const writesAtOnce = 16

// cutFile is what is kept of a pod that was cut off, or is to be: a file named for its UID.
type cutFile struct {
	UID       string    `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Code      Code      `json:"code"`
	Reason    string    `json:"reason"`
	At        time.Time `json:"at"`
	// Pending is an order that the kernel did not confirm yet: nobody was told of it.
	Pending bool `json:"pending,omitempty"`
}

// cuts remembers which UIDs were cut off, in a folder that outlives the node's boots. All is in memory. The disk is touched by save and
// prune alone, which are one caller's, at one time.
type cuts struct {
	folder    string
	leftovers []string // half written by an earlier process

	mu      sync.Mutex // whoever has it doesn't wait for the disk
	known   map[string]cutFile
	unsaved map[string]bool
	tried   chan struct{} // closed once a save has tried all that is unsaved now
	late    bool          // somebody waited for a save in vain, and it goes on
}

// openCuts reads what is kept. A file that can't be read still counts: its name says whose it is.
func openCuts(folder string) (*cuts, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the memory of pods that were cut off: %w", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read the memory of pods that were cut off: %w", err)
	}
	c := &cuts{folder: folder, known: map[string]cutFile{}, unsaved: map[string]bool{}, tried: make(chan struct{})}
	for _, entry := range entries {
		uid, found := strings.CutSuffix(entry.Name(), ".json")
		if !found {
			if strings.HasPrefix(entry.Name(), ".new-") {
				c.leftovers = append(c.leftovers, filepath.Join(folder, entry.Name()))
			}
			continue
		}
		kept := cutFile{}
		if data, err := readWhole(filepath.Join(folder, entry.Name())); err != nil || json.Unmarshal(data, &kept) != nil || kept.UID != uid {
			kept = cutFile{UID: uid, Code: CutBefore, Reason: "the file that says why can't be read"}
		}
		c.known[uid] = kept
	}
	return c, nil
}

// has returns what is remembered of a UID.
func (c *cuts) has(uid string) (cutFile, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, found := c.known[uid]
	return kept, found
}

// add remembers a UID, from now on in this process. The first reason is kept. The result is closed once the next save has tried to write
// it; nil: it is on the disk.
func (c *cuts) add(kept cutFile) (tried <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.known[kept.UID]; !found {
		c.known[kept.UID] = kept
		c.unsaved[kept.UID] = true
	}
	if !c.unsaved[kept.UID] {
		return nil
	}
	return c.tried
}

// wait waits until a save has tried to write what was added, and no longer than that; while a save takes longer, nobody else waits. It
// reports whether one has.
func (c *cuts) wait(tried <-chan struct{}, most time.Duration) bool {
	if tried == nil {
		return true
	}
	c.mu.Lock()
	late := c.late
	c.mu.Unlock()
	if late {
		return false
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-tried:
		return true
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-tried:
		return true
	default:
		c.late = true
		return false
	}
}

// done remembers that what was ordered is done. The first reason is kept.
func (c *cuts) done(kept cutFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, found := c.known[kept.UID]
	if found {
		kept = first
	}
	if !found || kept.Pending {
		kept.Pending = false
		c.known[kept.UID] = kept
		c.unsaved[kept.UID] = true
	}
}

// save writes what isn't on the disk yet. What fails is tried by the next. Many files at once cost the disk little more than one does.
func (c *cuts) save() error {
	for _, path := range c.leftovers {
		_ = os.Remove(path)
	}
	c.leftovers = nil
	c.mu.Lock()
	todo := make([]cutFile, 0, len(c.unsaved))
	for uid := range c.unsaved {
		todo = append(todo, c.known[uid])
	}
	tried := c.tried
	c.tried = make(chan struct{})
	c.mu.Unlock()
	errs := c.writeAll(todo)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, kept := range todo {
		if errs[i] == nil && c.known[kept.UID] == kept { // else it is another by now
			delete(c.unsaved, kept.UID)
		}
	}
	c.late = false
	close(tried)
	return errors.Join(errs...)
}

// writeAll returns an error or nil for each.
func (c *cuts) writeAll(todo []cutFile) []error {
	errs := make([]error, len(todo))
	if len(todo) == 0 {
		return errs
	}
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for i, kept := range todo {
		group.Go(func() error {
			errs[i] = c.write(kept)
			return nil
		})
	}
	_ = group.Wait() // what failed is in errs
	if err := syncFolder(c.folder); err != nil {
		for i := range errs {
			errs[i] = errors.Join(errs[i], err)
		}
	}
	return errs
}

// write puts a file into its place whole; once the folder is synced, it is on the disk: the power may fail right after a cut.
func (c *cuts) write(kept cutFile) (err error) {
	if !plainName(kept.UID) {
		return fmt.Errorf("remember that pod %s/%s was cut off: %.80q is no UID", kept.Namespace, kept.Name, kept.UID)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("remember that pod %s/%s was cut off: %w", kept.Namespace, kept.Name, err)
		}
	}()
	data, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	return replaceFile(c.folder, kept.UID+".json", data)
}

// prune forgets the pods that were not there for long: there reports those that are.
func (c *cuts) prune(now time.Time, there func(uid string) bool) error {
	c.mu.Lock()
	known := slices.Collect(maps.Keys(c.known))
	c.mu.Unlock()
	var errs []error
	for _, uid := range known {
		path := filepath.Join(c.folder, uid+".json")
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // not written yet, or a person removed it: for this process the pod stays cut
			continue
		case err != nil:
			errs = append(errs, err)
		case there(uid):
			if now.Sub(info.ModTime()) > time.Hour {
				errs = append(errs, os.Chtimes(path, now, now))
			}
		case now.Sub(info.ModTime()) > forgetAfter && c.forget(uid):
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// forget reports whether a UID is forgotten now: one that something new is known of is not.
func (c *cuts) forget(uid string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unsaved[uid] {
		return false
	}
	delete(c.known, uid)
	return true
}

// plainName is one that is safe in a path. UIDs are UUIDs, those of static pods hexadecimal digits.
func plainName(uid string) bool {
	return uid != "" && len(uid) <= 200 && uid[0] != '.' && strings.Trim(uid, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.") == ""
}
