package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// forgetAfter is how long the UID of a pod that is gone is still remembered. UIDs of the API server never come again; that of a
// static pod does, when its file is put back.
const forgetAfter = 24 * time.Hour

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

// cuts remembers which UIDs were cut off, in a folder that outlives the node's boots.
type cuts struct {
	folder string

	mu      sync.Mutex
	known   map[string]cutFile
	unsaved map[string]bool
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
	c := &cuts{folder: folder, known: map[string]cutFile{}, unsaved: map[string]bool{}}
	for _, entry := range entries {
		uid, found := strings.CutSuffix(entry.Name(), ".json")
		if !found {
			if strings.HasPrefix(entry.Name(), ".new-") {
				_ = os.Remove(filepath.Join(folder, entry.Name())) // half written by an earlier process
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

// add remembers a UID, from now on in this process though the disk be full. The first reason is kept.
func (c *cuts) add(kept cutFile) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.known[kept.UID]; !found {
		c.known[kept.UID] = kept
		c.unsaved[kept.UID] = true
	}
	return c.save()
}

// done remembers that what was ordered is done. The first reason is kept.
func (c *cuts) done(kept cutFile) error {
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
	return c.save()
}

// save writes what isn't on the disk yet.
func (c *cuts) save() error {
	var errs []error
	for uid := range c.unsaved {
		err := c.write(c.known[uid])
		if err == nil {
			delete(c.unsaved, uid)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// again tries what could not be written.
func (c *cuts) again() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.save()
}

// write puts a file into its place whole, and on the disk: the power may fail right after a cut.
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
	return writeSynced(c.folder, kept.UID+".json", data)
}

// prune forgets the pods that were not there for long: there reports those that are.
func (c *cuts) prune(now time.Time, there func(uid string) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for uid := range c.known {
		if c.unsaved[uid] {
			continue
		}
		path := filepath.Join(c.folder, uid+".json")
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a person removed it: for this process the pod stays cut
			continue
		case err != nil:
			errs = append(errs, err)
		case there(uid):
			if now.Sub(info.ModTime()) > time.Hour {
				errs = append(errs, os.Chtimes(path, now, now))
			}
		case now.Sub(info.ModTime()) > forgetAfter:
			errs = append(errs, os.Remove(path))
			delete(c.known, uid)
		}
	}
	return errors.Join(errs...)
}

// plainName is one that is safe in a path. UIDs are UUIDs, those of static pods hexadecimal digits.
func plainName(uid string) bool {
	return uid != "" && len(uid) <= 200 && uid[0] != '.' && strings.Trim(uid, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.") == ""
}
