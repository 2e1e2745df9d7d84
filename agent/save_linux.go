package agent

import (
	"context"
	"fmt"
	"time"
)

// writeTime is how long a cut waits until it is on the disk, and the agent's end until all is.
const writeTime = time.Second

var errDisk = fmt.Errorf("the disk has not answered for %v", writeTime)

// saving writes what is to outlive this process, in the background from now on. The result ends that: what isn't written yet is tried a last
// time, and that is not waited for for long.
func (a *agent) saving() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-a.toSave:
				a.save()
			case <-ctx.Done():
				a.save()
				return
			}
		}
	}()
	return func() {
		stop()
		timer := time.NewTimer(writeTime)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			a.remembered(errDisk)
		}
	}
}

// save writes what isn't on the disk yet, and keeps the memory of pods that were cut off as small as it may be. Nothing else waits for that
// disk, which may hang.
func (a *agent) save() {
	err := a.cuts.save()
	if now := time.Now(); err == nil && now.Sub(a.pruned) > pruneEvery {
		if synced, unread := a.world.pods.State(); synced && unread == nil {
			there := map[string]bool{}
			for _, pod := range a.world.all() {
				there[uidOf(pod)] = true
			}
			a.pruned = now
			err = a.cuts.prune(now, func(uid string) bool { return there[uid] })
		}
	}
	a.remembered(err)
	a.teller.failing("since when namespaces are governed is not remembered", a.since.save())
}

func (a *agent) remembered(err error) {
	if err != nil {
		a.metrics.failures.WithLabelValues("memory").Inc()
	}
	a.teller.failing("pods that were cut off are remembered by this process alone", err)
}
