package chaining

import (
	"slices"
	"time"
)

// Within this time removals count; so often is tried where they were too many.
const (
	removalWindow = 10 * time.Minute
	tryInterval   = time.Minute
)

// Removals counts how often others have removed Holdfast's own list. The zero value has none. Not for use by more than one
// goroutine at a time.
type Removals struct{ times []time.Time }

// Add counts a removal.
func (r *Removals) Add(at time.Time) {
	r.forget(at)
	r.times = append(r.times, at)
}

// Count is how many removals there were within the ten minutes before now.
func (r *Removals) Count(now time.Time) int {
	r.forget(now)
	return len(r.times)
}

// NextTry is when the list may be put there again: now, or, after [MaxRemovals] within ten minutes, a minute after the
// last removal.
func (r *Removals) NextTry(now time.Time) time.Time {
	if r.Count(now) < MaxRemovals {
		return now
	}
	if next := r.times[len(r.times)-1].Add(tryInterval); next.After(now) {
		return next
	}
	return now
}

func (r *Removals) forget(now time.Time) {
	r.times = slices.DeleteFunc(r.times, func(at time.Time) bool { return now.Sub(at) >= removalWindow })
}
