package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-cni/holdfast/lock"
)

// N12: each pod is renewed every 5 s, spread over the interval, one that waits for a kernel no sooner than due, and none that is cut.
func TestALaneRenewsEachPodInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 200
		l := newLane(time.Now())
		times := map[*held][]time.Time{}
		tend := func(p *held) time.Time {
			now := time.Now()
			if now.Before(p.due) || now.Sub(p.due) > 100*time.Millisecond {
				t.Errorf("renewed %v after it was due", now.Sub(p.due))
			}
			times[p] = append(times[p], now)
			return next(p.due, now)
		}
		cut := &held{}
		cut.cutting.Store(true)
		l.add(cut)
		for range pods {
			l.add(&held{})
		}
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		go l.run(ctx, tend)
		time.Sleep(60*time.Second + slot)
		stop()
		synctest.Wait()
		slots := map[time.Duration]int{}
		for p, at := range times {
			if p == cut {
				t.Error("renewed though it is cut off")
			}
			if len(at) < 11 || len(at) > 13 {
				t.Errorf("renewed %d times in a minute", len(at))
			}
			if first := at[0].Sub(began); first > lock.RenewEvery+slot {
				t.Errorf("first renewed after %v", first)
			}
			for i := 1; i < len(at); i++ {
				if gap := at[i].Sub(at[i-1]); gap != lock.RenewEvery {
					t.Errorf("renewed after %v", gap)
				}
			}
			slots[at[0].Sub(began)/slot]++
		}
		if len(times) != pods || len(slots) < 8 {
			t.Errorf("%d pods in %d slots", len(times), len(slots))
		}
		for at, n := range slots {
			if n > pods/4 {
				t.Errorf("%d renewals at once in slot %d", n, at)
			}
		}
	})
}

// What was missed, while the machine slept say, is not made up for at once.
func TestMissedRenewalsAreSpreadAgain(t *testing.T) {
	now := time.Now()
	for range 100 {
		if due := next(now.Add(-time.Hour), now); due.Before(now) || due.After(now.Add(lock.RenewEvery)) {
			t.Errorf("due %v from now", due.Sub(now))
		}
	}
	if due := next(now.Add(-time.Second), now); !due.Equal(now.Add(lock.RenewEvery - time.Second)) {
		t.Errorf("due %v from now", due.Sub(now))
	}
}
