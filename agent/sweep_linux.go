package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/cri"
)

// finding is a governed pod that runs and is not kept.
type finding struct {
	box     cri.Sandbox
	existed bool // it is older than its namespace's governing
	looks   int
	kind    string // empty: not one that is counted
	note    string // for people
	cut     order  // with a code: it was cut off for that
	done    bool   // nothing is left to do but to tell
	told    bool
}

// sweep compares the governed pods that run with those that are kept. It is all that stands between a pod that got past the chain
// and the network. Until the release's ConfigMap was read or is known to be missing, only the pods that ended are forgotten: it may say
// that a namespace is no longer governed, or that the release is leaving, and a cut can't be taken back.
func (a *agent) sweep(ctx context.Context, g inForce, read bool) error {
	if g.leaving {
		g.Namespaces = nil // nothing is governed from then on: the next release on this node remembers none of it
	}
	a.since.observe(time.Now(), g.changed, g.Namespaces)
	a.toSave.ring()
	boxes, err := a.sight.sandboxes(ctx)
	if err != nil {
		return err
	}
	running := make(map[string]bool, len(boxes))
	for _, box := range boxes {
		running[box.ID] = true
	}
	a.forget(running)
	if !read {
		return nil
	}
	var found []*finding
	for _, box := range boxes {
		if g.leaving || a.holds(box.ID) != nil {
			delete(a.findings, box.ID)
			continue
		}
		pod := a.world.pod(box.Namespace, box.Name, box.UID)
		born := a.world.governs(g.Governing, box.Namespace, box.Annotations)
		if !born && (pod == nil || !a.world.governs(g.Governing, box.Namespace, pod.Annotations)) {
			delete(a.findings, box.ID)
			continue
		}
		f := a.findings[box.ID]
		if f == nil {
			f = &finding{box: box}
			a.findings[box.ID] = f
		}
		f.existed = !born || a.existed(box) // one whose annotation came after its start was there before
		found = append(found, f)
	}
	a.examineAll(ctx, found)
	kinds := map[string]int{}
	for _, f := range found {
		a.tell(f, a.world.shown(f.box.Namespace, f.box.Name, f.box.UID))
		if f.kind != "" {
			kinds[f.kind]++
		}
	}
	for id, f := range a.findings {
		if !running[id] {
			a.teller.over(who{namespace: f.box.Namespace, name: f.box.Name}.notCut())
			delete(a.findings, id)
		}
	}
	a.metrics.show(kinds)
	return nil
}

// existed reports whether a sandbox is older than its namespace's governing. What asked for the lock itself never is.
func (a *agent) existed(box cri.Sandbox) bool {
	return box.Annotations[watcher.GovernedAnnotation] != "true" && a.since.existed(box.Namespace, box.Created)
}

// examineAll looks into sandboxes, many at once: one that the runtime doesn't answer for, or whose cut takes its time, holds up no other.
func (a *agent) examineAll(ctx context.Context, found []*finding) {
	var group errgroup.Group
	group.SetLimit(askAtOnce)
	for _, f := range found {
		if !f.done {
			group.Go(func() error {
				in, err := a.sight.inside(ctx, f.box.ID)
				a.examine(f, in, err)
				return nil
			})
		}
	}
	_ = group.Wait() // what failed is in the findings
}

// examine does what is due of a sandbox. Without done it is looked into again.
func (a *agent) examine(f *finding, in cri.Inside, err error) {
	f.looks++
	switch {
	case err != nil:
		f.unseen(err.Error())
		return
	case in.HostNetwork:
		f.onHost()
		return
	case in.NetNS == "":
		f.unseen("the runtime doesn't tell where it runs")
		return
	}
	defer a.turn(f.box.ID)()
	if a.holds(f.box.ID) != nil {
		return // adopted meanwhile
	}
	netns, err := lock.Open(in.NetNS)
	switch {
	case errors.Is(err, lock.ErrGone):
		f.unseen(err.Error()) // it ends, or its folder isn't mounted
		return
	case errors.Is(err, lock.ErrHostNamespace):
		f.onHost()
		return
	case err != nil:
		f.unseen(err.Error())
		return
	}
	if a.decide(f, netns) {
		return // the namespace was taken over
	}
	if err := netns.Close(); err != nil {
		slog.Warn("namespace not closed", "namespace", f.box.Namespace, "pod", f.box.Name, "reason", err.Error())
	}
}

func (f *finding) unseen(why string) {
	if f.looks > 1 { // a sandbox that ends just now is nothing to tell
		f.kind, f.note = kindUnseen, "The pod is governed, and can't be looked into: "+why
	}
}

func (f *finding) onHost() {
	f.kind, f.done = kindHost, true
	f.note = "The pod is governed and on the node's own network, where it can't be locked: nothing is proved of it. Remove hostNetwork"
}

// decide reports whether the pod is kept now.
func (a *agent) decide(f *finding, netns *lock.Namespace) (kept bool) {
	w := who{f.box.ID, f.box.Namespace, f.box.Name, f.box.UID}
	if before, cut := a.cuts.has(w.uid); cut {
		// Its sandbox, or the one before. A cut that is there already stays as it is.
		if a.cutAgain(netns, w, before) {
			f.done = true
			f.cut = order{before.Code, before.Reason}
			if before.Code == PastChain && f.kind == "" {
				f.kind = kindPast
			}
		}
		return false
	}
	_, err := netns.Record()
	switch {
	case errors.Is(err, lock.ErrNotLocked):
		a.unlocked(f, netns, w)
		return false
	case err != nil:
		f.unseen(err.Error())
		return false
	}
	r, err := a.states.Read(w.container)
	if err == nil {
		err = a.take(r, netns)
	}
	if err == nil {
		return true
	}
	// Seen once, it may be a sandbox that begins or ends; it is closed, or its lease runs out.
	if o, broken := orderFor(err); broken && (o.code == Tampered || f.looks > 1) {
		f.did(a.cutNow(netns, w, o), o)
	}
	return false
}

func (f *finding) did(cut bool, o order) {
	if cut {
		f.done, f.cut = true, o
	}
}

// unlocked acts on a governed pod that has no lock at all.
func (a *agent) unlocked(f *finding, netns *lock.Namespace, w who) {
	if !f.existed {
		f.kind = kindPast
		f.note = "The pod is governed and runs without a lock: it got past the chain. It was cut off, and is to be evicted"
		f.did(a.cutNow(netns, w, order{PastChain, "it runs without a lock: it got past the chain"}), order{PastChain, "it got past the chain"})
		return
	}
	acted, may := a.mayAct(w.container)
	if !may {
		f.kind = kindHeld
		f.note = fmt.Sprintf("The pod runs without a lock since before its namespace was governed. Nothing is done about it: %d such pods of this node "+
			"were acted on already. Delete it, or restart the agent for %d more", acted, a.options.ExistingLimit)
		return
	}
	f.kind, f.done = kindExisting, a.options.Existing != Cut
	f.note = "The pod runs without a lock since before its namespace was governed, and is to be evicted"
	if a.options.Existing == Cut {
		o := order{PastChain, "it runs without a lock since before its namespace was governed"}
		f.did(a.cutNow(netns, w, o), o)
	}
}

// mayAct reports whether something may be done about an existing pod, which is one of those that something was done about then.
func (a *agent) mayAct(container string) (acted int, may bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.acted[container] && len(a.acted) >= a.options.ExistingLimit {
		return len(a.acted), false
	}
	a.acted[container] = true
	return len(a.acted), true
}

// tell says once what was found, when the pod is seen on the API server.
func (a *agent) tell(f *finding, pod *corev1.Pod) {
	final := f.done || f.kind == kindExisting || f.kind == kindHeld || f.kind == kindUnseen
	if pod == nil || f.told || !final || f.kind == "" && f.cut.code == "" {
		return
	}
	f.told = true
	if f.note != "" {
		slog.Warn("governed pod without a lock", "namespace", pod.Namespace, "pod", pod.Name, "reason", f.kind, "message", f.note)
		a.teller.warn(pod, "Unlocked", f.note)
	}
	if f.cut.code != "" && pod.Annotations[watcher.CutOffAnnotation] == "" {
		a.marks.set(pod, watcher.CutOffAnnotation, f.cut.String())
	}
	if f.kind == kindPast || f.kind == kindExisting || f.kind == kindHost {
		a.marks.set(pod, watcher.EvictAnnotation, f.kind)
	}
}
