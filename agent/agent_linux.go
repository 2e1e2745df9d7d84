package agent

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
)

const (
	// pruneEvery is how often it is looked which of the pods that were cut off are gone.
	pruneEvery = 10 * time.Minute
	// late is how old a last renewal may be before the agent is not ready.
	late = 3 * lock.RenewEvery
)

// agent keeps the pods of one node.
type agent struct {
	options  *Options
	release  string
	world    *world
	sight    *sight
	states   adopt.Store
	cuts     *cuts
	since    *since
	policies *policies
	marks    *marks
	metrics  *metrics
	teller   *teller
	records  records
	started  time.Time

	ctx   context.Context // that pods are kept in
	group sync.WaitGroup

	toJudge, toSweep, toSave bell

	lanes [lanes]*lane
	turns [64]sync.Mutex // of sandboxes: each is taken up, or looked into, by one at a time
	seed  maphash.Seed

	mu       sync.Mutex
	pods     map[string]*held // by sandbox
	restored bool
	swept    time.Time // when what runs was last compared, by a plugin.json that could be gone by at least once
	renewed  bool      // every lease that was found at the start was renewed twice, once
	waiting  []*held
	acted    map[string]bool // existing pods that something was done about, by sandbox

	findings map[string]*finding // by sandbox; the sweep's alone
	pruned   time.Time           // that of what saves alone
}

// turn takes a sandbox. The result gives it back.
func (a *agent) turn(container string) (done func()) {
	m := &a.turns[maphash.String(a.seed, container)%uint64(len(a.turns))]
	m.Lock()
	return m.Unlock
}

// holds returns the pod of a sandbox that is kept, or nil.
func (a *agent) holds(container string) *held {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[container]
}

// all are the pods that are kept.
func (a *agent) all() []*held {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]*held, 0, len(a.pods))
	for _, p := range a.pods {
		list = append(list, p)
	}
	return list
}

// shares returns another sandbox whose pod is in that namespace, or nil.
func (a *agent) shares(id lock.ID, container string) *held {
	for _, p := range a.all() {
		if p.container != container && p.netns.ID() == id {
			return p
		}
	}
	return nil
}

// wake has everything looked at that a change may be about.
func (a *agent) wake() {
	a.toJudge.ring()
	a.toSweep.ring()
}

// run keeps the pods until the context ends, and then leaves everything as it is. Leases come first: they need neither the API
// server nor the runtime.
func (a *agent) run(ctx context.Context) (err error) {
	listener, err := a.listener(ctx)
	if err != nil || listener == nil {
		return err
	}
	defer func() { err = errors.Join(err, listener.Release()) }()
	if err := a.remember(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	saved := a.saving()
	keeping, stop := context.WithCancel(ctx)
	a.ctx = keeping
	for _, l := range a.lanes {
		a.group.Go(func() { l.run(keeping, a.tend) })
	}
	a.restore(ctx)
	feeding := a.world.start(keeping, a.wake)
	var working sync.WaitGroup
	working.Go(func() { a.marks.run(keeping) })
	// Each in its own time: the runtime may take long to answer, and that must hold up no cut.
	working.Go(func() { a.toJudge.whenever(keeping, a.judgeAll) })
	working.Go(func() { a.toSweep.whenever(keeping, a.sweepAll) })
	working.Go(func() {
		defer stop()
		server := adopt.Server{Handle: a.adopt, Failed: func(err error) { slog.Warn("connection of the plugin's", "reason", err.Error()) }}
		err = server.Serve(keeping, listener)
	})
	working.Wait()
	feeding()
	a.group.Wait()
	saved()
	a.sight.close()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// listener is the socket, which is this agent's until nothing of it is at work any more. While an agent that is being replaced still
// lives, it is waited for: no two renew one pod.
func (a *agent) listener(ctx context.Context) (*adopt.Listener, error) {
	for {
		l, err := adopt.Listen(a.options.Socket)
		if err == nil {
			a.teller.failing("waiting for another agent", nil)
			return l, nil
		}
		if !isInUse(err) {
			return nil, fmt.Errorf("agent: %w", err)
		}
		a.teller.failing("waiting for another agent", err)
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return nil, nil
		}
	}
}

// judgeAll judges the pods that are kept, by plugin.json. Where that can't be gone by, what this node remembers of it counts: the policies
// that were in force here. New pods are refused until it can.
func (a *agent) judgeAll(context.Context) {
	governing, unknown := a.world.governing()
	a.teller.failing("plugin.json can't be gone by yet: no pod is adopted, and those that run are judged by what this node remembers of it", unknown)
	if unknown != nil {
		a.judge(a.policies.remembered())
		return
	}
	allowed, err := a.policies.with(governing.Policy)
	a.teller.failing("allowed policies are not remembered", err)
	a.judge(allowed, a.policies.whole())
}

// sweepAll compares what runs with what is locked, by plugin.json. Where that can't be gone by, the namespaces that were governed when it
// last could still are.
func (a *agent) sweepAll(ctx context.Context) {
	read, _ := a.world.config.State() // asked first: what was read later would not be known below
	governing, unknown := a.world.governing()
	if unknown != nil {
		governing.Namespaces = a.since.namespaces()
	}
	err := a.sweep(ctx, governing, read)
	a.teller.failing("what runs can't be compared with what is locked", err)
	switch {
	case err != nil:
		a.metrics.sweeps.WithLabelValues("failed").Inc()
	case read:
		a.metrics.sweeps.WithLabelValues("done").Inc()
		a.mu.Lock()
		if unknown == nil || !a.swept.IsZero() {
			a.swept = time.Now()
		}
		a.mu.Unlock()
	}
	a.toSave.ring() // what could not be written is tried again
}

// forget lets go of pods whose sandbox has ended: the plugin removed their file at DEL, and the runtime no longer shows them. One whose
// file alone is gone is kept: its record is in memory.
func (a *agent) forget(running map[string]bool) {
	ids, err := a.states.IDs()
	a.teller.failing("state files can't be listed", err)
	if err != nil {
		return
	}
	there := make(map[string]bool, len(ids))
	for _, id := range ids {
		there[id] = true
	}
	for _, p := range a.all() {
		if !there[p.container] && !running[p.container] {
			p.end()
		}
	}
}
