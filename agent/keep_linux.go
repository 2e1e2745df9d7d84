package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
)

const (
	againAfter  = time.Second // a renewal or a cut that failed is tried again
	verifyEvery = 12          // renewals, which is a minute
)

// who is whose sandbox it is. uid is what the runtime and the plugin call it.
type who struct{ container, namespace, name, uid string }

func whoOf(r adopt.Request) who { return who{r.ContainerID, r.Namespace, r.Name, r.UID} }

// notCut is said while it can't be.
func (w who) notCut() string { return "pod " + w.namespace + "/" + w.name + " not cut off yet" }

// held is a pod whose lease is renewed.
type held struct {
	who
	rules  string
	netns  *lock.Namespace
	record *lock.Record
	unused func()          // of the record
	ctx    context.Context // that it is held in
	end    context.CancelFunc

	renewals atomic.Int32
	last     atomic.Int64 // when it was renewed, since the agent's start
	cutting  atomic.Bool  // it has an order, and is renewed no more
	checked  *corev1.Pod  // as last judged; the judge's alone
	wholly   bool         // it was judged by a policy too; the judge's alone
	proved   bool         // what was proved of it is recorded; the judge's alone

	using    sync.Mutex // of its lane and of its end: a closed namespace is used no more
	due      time.Time  // its lane's alone
	toVerify int        // renewals until it is verified; its lane's alone
}

// hold keeps a pod from now on. It takes over the namespace. The caller has the sandbox's turn.
func (a *agent) hold(w who, rules string, netns *lock.Namespace, record *lock.Record, unused func(), renewals int32) *held {
	p := &held{who: w, rules: rules, netns: netns, record: record, unused: unused}
	p.ctx, p.end = context.WithCancel(a.ctx)
	p.renewals.Store(renewals)
	p.last.Store(int64(time.Since(a.started)))
	a.mu.Lock()
	a.pods[w.container] = p
	a.mu.Unlock()
	a.lane(w.container).add(p)
	a.group.Go(func() {
		a.listen(p)
		a.drop(p)
	})
	a.wake() // what was said of the pod meanwhile
	return p
}

// order cuts a pod off. The first order counts.
func (a *agent) order(p *held, o order) {
	if p.cutting.CompareAndSwap(false, true) {
		a.group.Go(func() { a.cutHeld(p, o) })
	}
}

// tend renews a pod, and verifies it once a minute. It returns when to do so again.
func (a *agent) tend(p *held) time.Time {
	p.using.Lock()
	defer p.using.Unlock()
	if p.ctx.Err() != nil {
		return time.Now().Add(lock.RenewEvery)
	}
	o, broken, renewed := a.renew(p, p.due)
	if renewed {
		if p.toVerify--; p.toVerify < 0 {
			p.toVerify = verifyEvery - 1
			o, broken = a.verify(p, "")
		}
	}
	if broken {
		a.order(p, o)
	}
	if !renewed {
		return time.Now().Add(againAfter)
	}
	return next(p.due, time.Now())
}

// next is when the renewal is due after one that was due then. What was missed is not made up for.
func next(due, now time.Time) time.Time {
	due = due.Add(lock.RenewEvery)
	if due.Before(now) {
		return now.Add(rand.N(lock.RenewEvery))
	}
	return due
}

// renew is one batch of the kernel's and, only if that succeeded, one stamp.
func (a *agent) renew(p *held, due time.Time) (o order, broken, renewed bool) {
	err := p.netns.Renew(lock.Lease)
	if err != nil {
		if o, broken = orderFor(err); broken {
			a.metrics.renewals.WithLabelValues("lost").Inc()
			return o, true, false
		}
		a.metrics.renewals.WithLabelValues("failed").Inc()
		slog.Error("lease not renewed", "namespace", p.namespace, "pod", p.name, "reason", err.Error())
		return o, false, false
	}
	now := time.Now()
	a.metrics.renewals.WithLabelValues("renewed").Inc()
	a.metrics.delay.Observe(now.Sub(due).Seconds())
	p.last.Store(int64(now.Sub(a.started)))
	p.renewals.Add(1)
	if err := a.stamp(p.netns, p.rules); err != nil {
		a.metrics.stamps.Inc()
		slog.Error("lease renewed and not stamped", "namespace", p.namespace, "pod", p.name, "reason", err.Error())
	}
	return o, false, true
}

func (a *agent) stamp(netns *lock.Namespace, rules string) error {
	beat, err := lock.Now()
	if err != nil {
		return err
	}
	return netns.WriteStamp(lock.Stamp{Release: a.release, Rules: rules, Beat: beat})
}

// verify compares the kernel with what was recorded at this pod's ADD, never with what this release would make: an upgrade is not
// tampering. A pod is kept from a comparison on that found them the same, and cut off after one that did not; so where nobody has
// changed anything since the last, which the kernel's count of transactions proves, they still are, and there is nothing to read.
func (a *agent) verify(p *held, by string) (order, bool) {
	changed, err := p.netns.Changed()
	if err == nil && changed {
		err = p.netns.Verify(*p.record)
	}
	if err == nil {
		a.metrics.verifications.WithLabelValues("same").Inc()
		return order{}, false
	}
	o, broken := orderFor(err)
	if !broken {
		a.metrics.verifications.WithLabelValues("failed").Inc()
		slog.Error("rules not verified", "namespace", p.namespace, "pod", p.name, "reason", err.Error())
		return order{}, false
	}
	a.metrics.verifications.WithLabelValues("differ").Inc()
	if by != "" {
		o.says += " (" + by + ")"
	}
	return o, true
}

// listen has the pod cut off when somebody else changed its lock, and the lock verified when anything else was changed in the namespace,
// and once it hears. It ends with the pod. There is a pause only where listening can't be begun, or is no longer of use.
func (a *agent) listen(p *held) {
	for p.ctx.Err() == nil {
		m, err := p.netns.Monitor()
		deaf := err != nil
		if !deaf {
			err = a.hear(p, m)
		}
		if p.ctx.Err() != nil {
			return
		}
		slog.Warn("not heard for a moment what changes in a pod's namespace", "namespace", p.namespace, "pod", p.name, "reason", err.Error())
		if deaf || p.cutting.Load() {
			pause(p.ctx, againAfter)
		}
	}
}

func (a *agent) hear(p *held, m *lock.Monitor) (err error) {
	defer func() { err = errors.Join(err, m.Close()) }()
	o, broken := a.verify(p, "") // for what happened before it heard
	for {
		if broken {
			a.order(p, o)
		}
		change, err := m.Next(p.ctx)
		if errors.Is(err, lock.ErrOverrun) { // what was changed isn't known, and none who may be in there changes as much
			a.order(p, order{Tampered, "so many rules were changed at once that it can't be known whether the lock's were"})
		}
		if err != nil {
			return err
		}
		by := fmt.Sprintf("process %d, %.32q, changed ", change.PID, change.Process)
		if change.Lock { // whatever it is now: what went out in between isn't known
			o, broken = order{Tampered, by + "the lock's rules, and perhaps changed them back"}, true
		} else {
			o, broken = a.verify(p, by+"other rules")
		}
	}
}

// drop forgets a pod that is no longer kept.
func (a *agent) drop(p *held) {
	p.end()
	a.lane(p.container).remove(p)
	a.mu.Lock()
	if a.pods[p.container] == p {
		delete(a.pods, p.container)
	}
	a.mu.Unlock()
	p.using.Lock()
	defer p.using.Unlock()
	p.unused()
	if err := p.netns.Close(); err != nil {
		slog.Warn("namespace not closed", "namespace", p.namespace, "pod", p.name, "reason", err.Error())
	}
}

// cutHeld cuts until it is done: a pod with an order is renewed no more.
func (a *agent) cutHeld(p *held, o order) {
	defer a.teller.over(p.notCut()) // it was cut off, or has ended
	a.ordered(p.who, o)
	for {
		err := p.netns.Cut(o.String())
		if err == nil {
			break
		}
		a.metrics.failures.WithLabelValues("cut").Inc()
		a.teller.failing(p.notCut(), err)
		if pause(p.ctx, againAfter); p.ctx.Err() != nil {
			return // the kernel ends it, when the lease runs out
		}
	}
	a.wasCut(p.who, o)
	p.end()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
