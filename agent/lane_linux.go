package agent

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-cni/holdfast/lock"
)

// slot is what renewals are gathered in, those of all lanes at the same moments: a process that wakes twice a second costs less than one
// that wakes for each pod.
const slot = lock.RenewEvery / 10

// lane renews some of the pods, one after the other. There are a few, so that a namespace that doesn't answer, for up to 5 s, holds up
// only a part of the others; and no more, as each has a goroutine whose stack the netlink library makes large.
type lane struct {
	began time.Time // slots are counted from it, by the clock that nobody sets
	mu    sync.Mutex
	pods  []*held
	woken bell
}

const lanes = 4

// lane is the one that a sandbox's pod is in.
func (a *agent) lane(container string) *lane {
	return a.lanes[maphash.String(a.seed, container)%lanes]
}

func newLane(began time.Time) *lane { return &lane{began: began, woken: newBell()} }

// add takes in a pod whose lease is fresh. Renewals of different pods are spread over the interval.
func (l *lane) add(p *held) {
	p.due = l.began.Add((time.Since(l.began)+rand.N(lock.RenewEvery))/slot*slot + slot)
	p.toVerify = rand.IntN(verifyEvery)
	l.mu.Lock()
	l.pods = append(l.pods, p)
	l.mu.Unlock()
	l.woken.ring()
}

func (l *lane) remove(p *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pods = slices.DeleteFunc(l.pods, func(other *held) bool { return other == p })
}

func (l *lane) all() []*held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pods)
}

// run renews until the context ends.
func (l *lane) run(ctx context.Context, tend func(*held) time.Time) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.woken:
		case <-timer.C:
		}
		timer.Reset(max(0, time.Until(l.round(ctx, tend))))
	}
}

// round renews what is due, and returns when the next is.
func (l *lane) round(ctx context.Context, tend func(*held) time.Time) time.Time {
	now := time.Now()
	soonest := now.Add(lock.RenewEvery)
	for _, p := range l.all() {
		if ctx.Err() != nil {
			break
		}
		if p.cutting.Load() {
			continue
		}
		if !p.due.After(now) {
			p.due = tend(p)
			now = time.Now()
		}
		if p.due.Before(soonest) {
			soonest = p.due
		}
	}
	return soonest
}
