package install

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// ownPrefix is that of the temporary files and nudges of chaining/store, which are no events.
const ownPrefix = ".holdfast-"

// pollEvery is how often directories are looked at whose events cannot be had.
const pollEvery = 500 * time.Millisecond

// watch tells of changes in directories. Where the node's inotify instances or watches are used up
// (fs.inotify.max_user_instances and max_user_watches), it looks by itself.
type watch struct {
	notify *fsnotify.Watcher // nil: none is to be had
	wake   func()

	mu      sync.Mutex
	watched map[string]watched
	polling bool
}

// watched is what is followed under a name: a directory that is moved away takes its watch along.
type watched struct {
	id    fileID
	only  string // the one file of interest; empty: all
	polls bool
	sum   uint64
}

func newWatch(wake func()) *watch {
	w := &watch{wake: wake, watched: map[string]watched{}}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		slog.Warn("no inotify, looking every half second instead", "reason", err.Error())
		return w
	}
	w.notify = notify
	go w.follow()
	return w
}

func (w *watch) close() {
	if w.notify != nil {
		_ = w.notify.Close() // the process is about to end
	}
}

// follow ends when the watcher is closed.
func (w *watch) follow() {
	for {
		select {
		case event, open := <-w.notify.Events:
			if !open {
				return
			}
			if w.counts(event) {
				w.wake()
			}
		case err, open := <-w.notify.Errors:
			if !open {
				return
			}
			slog.Warn("events of the CNI directories were lost", "reason", err.Error())
			w.wake()
		}
	}
}

func (w *watch) counts(event fsnotify.Event) bool {
	name := filepath.Base(event.Name)
	if strings.HasPrefix(name, ownPrefix) {
		return false
	}
	w.mu.Lock()
	of := w.watched[filepath.Dir(event.Name)]
	w.mu.Unlock()
	return of.only == "" || of.only == name
}

// want is a directory, and the one file in it that is of interest; empty: all.
type want struct{ dir, only string }

// follows makes exactly these directories watched. It is called before they are read, so that nothing falls in between.
func (w *watch) follows(wants []want) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := map[string]bool{}
	w.polling = false
	for _, want := range wants {
		keep[want.dir] = true
		now := watched{only: want.only}
		if info, err := identifyDir(want.dir); err == nil {
			now.id = info
		} else {
			now.polls = true
		}
		was, known := w.watched[want.dir]
		switch {
		case known && was.id == now.id && !was.polls:
			now.polls = false
		case !now.polls:
			now.polls = w.add(want.dir) != nil
		}
		if now.polls {
			now.sum, w.polling = was.sum, true
		}
		w.watched[want.dir] = now
	}
	for dir := range w.watched {
		if !keep[dir] {
			delete(w.watched, dir)
			if w.notify != nil {
				_ = w.notify.Remove(dir) // it may be gone
			}
		}
	}
}

func (w *watch) add(dir string) error {
	if w.notify == nil {
		return fmt.Errorf("no inotify")
	}
	_ = w.notify.Remove(dir) // of what was there under this name before
	return w.notify.Add(dir)
}

// polls reports whether there are directories without events.
func (w *watch) polls() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.polling
}

// poll looks for changes where there are no events.
func (w *watch) poll() (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir, of := range w.watched {
		if !of.polls {
			continue
		}
		if sum := fingerprint(dir, of.only); sum != of.sum {
			of.sum, changed = sum, true
			w.watched[dir] = of
		}
	}
	return changed
}

// fingerprint differs when a file does, by what a listing tells.
func fingerprint(dir, only string) uint64 {
	hash := fnv.New64a()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 1
	}
	for _, e := range entries {
		if only != "" && e.Name() != only || strings.HasPrefix(e.Name(), ownPrefix) {
			continue
		}
		id, _ := identify(filepath.Join(dir, e.Name()))
		fmt.Fprintln(hash, e.Name(), id.info, id.size, id.changed.UnixNano())
	}
	return hash.Sum64()
}
