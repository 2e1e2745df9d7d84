package install

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/cri"
	"github.com/holdfast-cni/holdfast/watcher/node"
)

const (
	resync    = 30 * time.Second       // backs every watch
	askTime   = 2 * time.Second        // for one answer of the runtime
	loadTime  = 250 * time.Millisecond // that a runtime may take to load what is on disk
	retryMax  = 30 * time.Second       // between tries at what failed
	steadyFor = 2 * time.Second        // that a closed node says the same
)

// looks bounds how often everything is looked at, whatever a neighbour does.
var looks = struct {
	every rate.Limit
	burst int
}{20, 40}

// loop keeps one node. It is one goroutine: events only wake it.
type loop struct {
	options *Options
	world   *world
	fsys    fs.FS // the node's root
	binary  *binary
	watch   *watch
	writer  *nodeWriter
	metrics *metrics
	teller  *teller

	woken  chan struct{}
	limit  *rate.Limiter
	gate   *gate // nil: no look yet
	nudger nudger

	runtime  *cri.Runtime // nil: no socket was found
	socket   string
	unfollow context.CancelFunc
	conf     string // the configuration directory as this process sees it; empty: not known yet
	placed   []string
	removals chaining.Removals
	triedAt  time.Time
	failures int
	said     wanted // by the condition last
	saidAt   time.Time
	swept    bool
	looked   func() // is told of the first look at everything
}

func (l *loop) wake() {
	select {
	case l.woken <- struct{}{}:
	default: // it is awake
	}
}

// run looks until the context ends. Each look says when the next is due though nothing happens.
func (l *loop) run(ctx context.Context) error {
	defer l.watch.close()
	for {
		if err := l.limit.Wait(ctx); err != nil {
			return nil // the context ended
		}
		next := l.look(ctx)
		timer := time.NewTimer(next)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-l.woken:
				waiting = false
			case <-timer.C:
				waiting = false
			case <-l.pollTimer():
				waiting = !l.watch.poll()
			}
		}
		timer.Stop()
	}
}

// pollTimer fires when directories without events are to be looked at; never where there are none.
func (l *loop) pollTimer() <-chan time.Time {
	if l.watch.polls() {
		return time.After(pollEvery)
	}
	return nil
}

// look sees everything once and does what is due. It returns when to look again.
func (l *loop) look(ctx context.Context) time.Duration {
	if unread := l.world.unread(); unread != nil {
		_, err := unread.State()
		l.teller.starting(unread.What, err)
		return resync
	}
	defer l.looked()
	n, found := l.writer.node()
	if !found {
		return resync // deleted: the pod goes with it
	}
	entry, leaving, err := l.world.plugin()
	_, registered := n.Labels[watcher.NodeLabel]
	_, installed := n.Labels[watcher.InstalledLabel]
	switch {
	case !registered && !installed, leaving && !installed:
		return l.idle(ctx, n)
	case !registered || leaving:
		return l.leave(ctx, n, entry, leaving)
	}
	return l.keep(ctx, n, entry, err)
}

// idle: there is nothing of ours here, and nothing to do.
func (l *loop) idle(ctx context.Context, n *corev1.Node) time.Duration {
	l.gate, l.said = nil, wanted{}
	if _, registered := n.Labels[watcher.NodeLabel]; !registered {
		return l.publish(ctx, gone())
	}
	return resync
}

// keep makes and proves the chain, and lets the gate decide.
func (l *loop) keep(ctx context.Context, n *corev1.Node, entry chaining.Entry, refused error) time.Duration {
	if l.gate == nil {
		l.gate = &gate{open: n.Labels[watcher.NodeLabel] == labelTrue, reason: chaining.Starting}
	}
	if n.Labels[watcher.InstalledLabel] != labelTrue { // before anything is put on the node
		l.gate.open = false
		if next := l.publish(ctx, kept(false, chaining.Starting, "install-cni has just started on this node")); next < resync {
			return next
		}
	}
	o := node.Options{ConfDir: l.options.ConfDir, Strategy: l.options.Strategy, Plugin: &entry, ConfigMapUsed: l.world.configMapUsed(n)}
	if refused != nil {
		o.Plugin, o.PluginErr = nil, refused
	}
	x, verdict := l.chain(ctx, o)
	now := time.Now()
	next := l.gate.observe(now, verdict.Reason)
	l.metrics.looked(now, l.gate, x.Report.Proof, x.Choice.Strategy)
	said, steady := l.steady(now, kept(l.gate.open, l.gate.reason, l.message(x, verdict)))
	l.teller.decided(n, l.gate, said.condition.Message)
	return soonest(next, again(verdict.Reason), l.nudge(now, x, verdict), l.retryAt(now, x.Choice), steady, l.publish(ctx, said))
}

// steady keeps a closed node from saying something else all the time: a neighbour that fights would have the API server written
// to with each of its writes. Next is when it may say what is so now.
func (l *loop) steady(now time.Time, want wanted) (said wanted, next time.Duration) {
	if l.said.open && want.open && !l.gate.lost.IsZero() {
		return l.said, 0 // lost for a moment, which the next look repairs or tells
	}
	if l.said.condition != nil && !want.open && !l.said.open && *l.said.condition != *want.condition {
		if wait := l.saidAt.Add(steadyFor).Sub(now); wait > 0 {
			return l.said, wait
		}
	}
	if l.said.condition == nil || *l.said.condition != *want.condition {
		l.saidAt = now
	}
	l.said = want
	return want, 0
}

// again is when to look at what is not good though no event tells of it: a file that is written in place is complete without
// one.
func again(r chaining.Reason) time.Duration {
	switch r {
	case chaining.Chained:
		return 0
	case chaining.BinaryMissing, chaining.BinaryDiffers:
		return time.Second
	}
	return 5 * time.Second
}

// message is the condition's: what is so, and the fix where it is not good.
func (l *loop) message(x node.Examination, v node.Verdict) string {
	switch {
	case l.gate.open:
		return fmt.Sprintf("%s is chained last in %s (strategy %s, proof %s)", x.Report.Verdict.Type, x.Report.Network(), x.Choice.Strategy, x.Report.Proof)
	case v.Reason == chaining.Chained:
		return fmt.Sprintf("%s is chained again, and has to stay so for %s before the node opens", x.Report.Verdict.Type, hold)
	}
	return v.Sentence()
}

// nudge makes Cilium and the runtime look again, where what they hold is not what is there for them.
func (l *loop) nudge(now time.Time, x node.Examination, v node.Verdict) time.Duration {
	target := ""
	switch {
	case v.Reason == chaining.RuntimeNotLoaded:
		target = targetRuntime
	case x.Choice.Strategy == chaining.ByCilium && v.Entry():
		target = targetCilium
	default:
		l.nudger.healed()
		return 0
	}
	due, next := l.nudger.due(now)
	if due {
		l.poke(target)
	}
	return next
}

// publish writes to the Node what differs, and says when to try again.
func (l *loop) publish(ctx context.Context, want wanted) time.Duration {
	if err := l.writer.write(ctx, want); err != nil {
		l.failures++
		wait := min(time.Second<<min(l.failures-1, 10), retryMax)
		l.teller.failed("the Node cannot be written; it keeps what it says", err)
		return wait
	}
	l.failures = 0
	return resync
}

// soonest leaves out zeros.
func soonest(all ...time.Duration) time.Duration {
	least := resync
	for _, d := range all {
		if d > 0 && d < least {
			least = d
		}
	}
	return least
}

// retryAt is when a strategy that was refused may be tried again.
func (l *loop) retryAt(now time.Time, c chaining.Choice) time.Duration {
	if c.Refused != chaining.StrategyRefused || l.removals.Count(now) < chaining.MaxRemovals {
		return 0
	}
	if next := l.removals.NextTry(now); next.After(now) {
		return next.Sub(now)
	}
	return stood // a try is under way
}
