package agent

import (
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/watcher"
)

// cutNow cuts a namespace that no pod is kept in. It reports whether that was done; else it is to be tried again.
func (a *agent) cutNow(netns *lock.Namespace, w who, o order) bool {
	a.ordered(w, o)
	if !a.cut(netns, w, o) {
		return false
	}
	a.wasCut(w, o)
	return true
}

// cutAgain cuts a namespace whose pod is remembered: its own that was cut before, which stays as it is, another of the same UID, or one
// that an earlier agent had only an order for. Only that last is something to tell. It reports whether it was done.
func (a *agent) cutAgain(netns *lock.Namespace, w who, before cutFile) bool {
	o := order{CutBefore, before.Reason}
	if before.Pending {
		o.code = before.Code
	}
	if !a.cut(netns, w, o) {
		return false
	}
	if before.Pending {
		a.wasCut(w, o)
	}
	return true
}

func (a *agent) cut(netns *lock.Namespace, w who, o order) bool {
	if err := netns.Cut(o.String()); err != nil {
		a.metrics.failures.WithLabelValues("cut").Inc()
		a.teller.failing(w.notCut(), err)
		return false
	}
	a.teller.over(w.notCut())
	return true
}

// ordered remembers that a pod is to be cut off before the kernel is asked: whatever happens in between, its UID is never adopted
// again, and the reason is known, by the next agent too. Where the disk hangs, this process alone knows it (ADR 17): that holds up no cut.
func (a *agent) ordered(w who, o order) {
	kept := fileOf(w, o)
	kept.Pending = true
	tried := a.cuts.add(kept)
	a.toSave.ring()
	if !a.cuts.wait(tried, writeTime) {
		a.remembered(errDisk)
	}
}

// wasCut tells everybody of a pod that was cut off, and remembers that it is done.
func (a *agent) wasCut(w who, o order) {
	a.metrics.cuts.WithLabelValues(string(o.code)).Inc()
	kept := fileOf(w, o)
	slog.Warn("pod cut off", "namespace", w.namespace, "pod", w.name, "reason", o.code, "message", kept.Reason)
	a.cuts.done(kept)
	a.toSave.ring()
	a.tellCut(a.world.shown(w.namespace, w.name, w.uid), o)
}

func fileOf(w who, o order) cutFile {
	return cutFile{UID: w.uid, Namespace: w.namespace, Name: w.name, Code: o.code, Reason: clip(o.says, maxText), At: time.Now().UTC().Truncate(time.Second)}
}

func (a *agent) tellCut(pod *corev1.Pod, o order) {
	if pod == nil {
		return // it is told once the pod is seen
	}
	a.teller.warn(pod, "Cut", "The pod was cut off from the network for good. "+o.String()+". Delete it; a new one gets its own lease")
	a.marks.set(pod, watcher.CutOffAnnotation, o.String())
}
