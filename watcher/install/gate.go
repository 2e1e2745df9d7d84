package install

import (
	"time"

	"github.com/holdfast-cni/holdfast/chaining"
)

// How long what is proved, or lost, must last. A list that somebody rewrites is repaired and proved again within
// milliseconds: that is no reason to close a node. One that is rewritten all the time is.
const (
	grace      = 500 * time.Millisecond // of lost proof before the node is closed
	flapLimit  = 5                      // losses within flapWindow that close a node though each was short
	flapWindow = 10 * time.Second
	reopens    = 3               // closings within a minute that are opened again at once
	hold       = 2 * time.Second // of uninterrupted proof after more of them
)

// gate decides from one look to the next whether the node is open. Time comes in, so that it can be tested.
type gate struct {
	open     bool
	reason   chaining.Reason // of a closed node
	lost     time.Time       // since when the proof is gone; zero while it holds
	proven   time.Time       // since when it holds; zero while it is gone
	losses   []time.Time     // within flapWindow
	closings []time.Time     // within a minute
}

// observe takes one verdict. Next is when the gate wants another look though nothing happens; zero: never.
func (g *gate) observe(now time.Time, reason chaining.Reason) (next time.Duration) {
	g.losses, g.closings = within(g.losses, now, flapWindow), within(g.closings, now, time.Minute)
	if reason != chaining.Chained {
		return g.observeLoss(now, reason)
	}
	g.lost = time.Time{}
	if g.proven.IsZero() {
		g.proven = now
	}
	if g.open {
		return 0
	}
	if wait := g.proven.Add(g.hold()).Sub(now); wait > 0 {
		return wait
	}
	g.open, g.reason = true, chaining.Chained
	return 0
}

func (g *gate) observeLoss(now time.Time, reason chaining.Reason) time.Duration {
	if g.lost.IsZero() {
		g.lost = now
		g.losses = append(g.losses, now)
	}
	g.proven = time.Time{}
	if !g.open {
		g.reason = reason
		return 0
	}
	if wait := g.lost.Add(grace).Sub(now); wait > 0 && len(g.losses) < flapLimit {
		return wait
	}
	g.open, g.reason = false, reason
	g.closings = append(g.closings, now)
	return 0
}

// hold is how long proof must last before a closed node opens.
func (g *gate) hold() time.Duration {
	if len(g.losses) >= flapLimit || len(g.closings) > reopens {
		return hold
	}
	return 0
}

func within(times []time.Time, now time.Time, window time.Duration) []time.Time {
	for len(times) > 0 && now.Sub(times[0]) > window {
		times = times[1:]
	}
	return times
}
