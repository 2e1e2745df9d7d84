package agent

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// lookEvery leaves a pod that got past the chain no more than 5 s, the look at it included (N18).
const lookEvery = 3 * time.Second

// wakes bounds how often a loop looks, whatever changes on the API server.
var wakes = struct {
	every rate.Limit
	burst int
}{4, 20}

// bell wakes a loop.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default: // it is awake
	}
}

// whenever looks at once, when the bell is rung and every so often, until the context ends.
func (b bell) whenever(ctx context.Context, look func(context.Context)) {
	limit := rate.NewLimiter(wakes.every, wakes.burst)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b:
		case <-timer.C:
			timer.Reset(lookEvery)
		}
		if limit.Wait(ctx) != nil {
			return
		}
		look(ctx)
	}
}
