package agent

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
)

// atOnce bounds how many pods are taken up at the same time.
const atOnce = 8

// restore takes up the pods that an earlier agent kept, by the plugin's state files and the kernel alone.
func (a *agent) restore(ctx context.Context) {
	ids, err := a.states.IDs()
	a.teller.failing("state files can't be listed", err)
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, id := range ids {
		group.Go(func() error {
			if ctx.Err() == nil {
				a.restoreOne(id)
			}
			return nil
		})
	}
	_ = group.Wait() // what fails was said
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restored = true
	for _, p := range a.pods {
		a.waiting = append(a.waiting, p)
	}
}

func (a *agent) restoreOne(id string) {
	defer a.turn(id)()
	r, err := a.states.Read(id)
	if err != nil {
		slog.Warn("state file not used", "path", id, "reason", err.Error())
		return // if it is of a pod that runs, the sweep finds that
	}
	netns, err := lock.Open(r.NetNS)
	if err != nil {
		if !errors.Is(err, lock.ErrGone) {
			slog.Error("pod not taken up", "namespace", r.Namespace, "pod", r.Name, "reason", err.Error())
		}
		return
	}
	if a.takenUp(r, netns) {
		return
	}
	if err := netns.Close(); err != nil {
		slog.Warn("namespace not closed", "namespace", r.Namespace, "pod", r.Name, "reason", err.Error())
	}
}

// takenUp reports whether the pod is kept now. One that was cut off has no lease: that is no new reason.
func (a *agent) takenUp(r adopt.Request, netns *lock.Namespace) (kept bool) {
	if before, cut := a.cuts.has(r.UID); cut {
		if r.In(netns.ID().Device, netns.ID().Inode) == nil { // else only the runtime can say whose it is
			a.cutAgain(netns, whoOf(r), before)
		}
		return false
	}
	err := a.take(r, netns)
	if err == nil {
		return true
	}
	// A file that is of another namespace says nothing of the one that is there: only the runtime can say whose that is.
	// One without a stamp never had a lease: its ADD goes on, or is tried again with the same UID.
	if o, broken := orderFor(err); broken && o.code != StateLost && (o.code != Expired || stamped(netns)) {
		a.cutNow(netns, whoOf(r), o)
	} else {
		slog.Error("pod not taken up", "namespace", r.Namespace, "pod", r.Name, "reason", err.Error())
	}
	return false
}

// stamped reports whether an agent has adopted the pod, as far as its link lo says.
func stamped(netns *lock.Namespace) bool {
	_, err := netns.ReadStamp()
	return !errors.Is(err, lock.ErrNotStamped)
}

// take keeps a pod that has a lease: it is renewed, never lent anew. On success it takes over the namespace.
func (a *agent) take(r adopt.Request, netns *lock.Namespace) error {
	if err := r.In(netns.ID().Device, netns.ID().Inode); err != nil {
		return err
	}
	record, unused, err := a.records.get(r.Record)
	if err != nil {
		return err
	}
	if err = netns.Verify(*record); err == nil {
		err = netns.Renew(lock.Lease)
	}
	if err != nil {
		unused()
		return err
	}
	if err := a.stamp(netns, r.Rules); err != nil {
		a.metrics.stamps.Inc() // the next renewal stamps again
	}
	a.metrics.renewals.WithLabelValues("renewed").Inc()
	a.hold(whoOf(r), r.Rules, netns, record, unused, 1)
	return nil
}
