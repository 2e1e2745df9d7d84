package install

import "time"

// nudger says when the runtime, or Cilium, is to be made to look again: after 1, 2, 4 … 30 s, then once a minute.
type nudger struct {
	last  time.Time // when the last nudge was, or what it heals was first seen; zero while there is nothing to heal
	count int
}

const longestStep = 30 * time.Second

func (n *nudger) due(now time.Time) (due bool, next time.Duration) {
	if n.last.IsZero() {
		n.last = now
	}
	if wait := n.last.Add(n.step()).Sub(now); wait > 0 {
		return false, wait
	}
	n.last = now
	n.count++
	return true, n.step()
}

// healed starts over.
func (n *nudger) healed() { *n = nudger{} }

func (n *nudger) step() time.Duration {
	const doublings = 5 // 1 s to 16 s, then 30 s
	switch {
	case n.count < doublings:
		return time.Second << n.count
	case n.count == doublings:
		return longestStep
	}
	return time.Minute
}
