package chaining_test

import (
	"testing"
	"time"

	"github.com/holdfast-cni/holdfast/chaining"
)

func TestThreeRemovalsWithinTenMinutesAreTooMany_C7(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var r chaining.Removals
	for i, c := range []struct {
		add   time.Duration // counted then, unless negative
		now   time.Duration
		count int
		next  time.Duration
	}{
		{-1, 0, 0, 0},
		{0, 0, 1, 0},
		{5 * time.Minute, 5 * time.Minute, 2, 5 * time.Minute},
		{8 * time.Minute, 8 * time.Minute, 3, 9 * time.Minute}, // refused
		{-1, 9 * time.Minute, 3, 9 * time.Minute},              // one try
		{9*time.Minute + 1, 9*time.Minute + 2, 4, 10*time.Minute + 1},
		{-1, 10*time.Minute - 1, 4, 10*time.Minute + 1},
		{-1, 10 * time.Minute, 3, 10*time.Minute + 1}, // the first is forgotten
		{-1, 15 * time.Minute, 2, 15 * time.Minute},   // and the second: the strategy is good again
		{-1, 30 * time.Minute, 0, 30 * time.Minute},   // and all
		{31 * time.Minute, 31 * time.Minute, 1, 31 * time.Minute},
	} {
		if c.add >= 0 {
			r.Add(at(c.add))
		}
		if count, next := r.Count(at(c.now)), r.NextTry(at(c.now)); count != c.count || !next.Equal(at(c.next)) {
			t.Errorf("%d: %d removals, next try after %s", i, count, next.Sub(start))
		}
	}
}
