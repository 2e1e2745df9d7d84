package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/agent/contract"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/watcher"
)

// adopt is asked by the plugin, between the lock and the pod's first packet. A pod that is asked for twice gets the same answer, and
// never a second first lease.
func (a *agent) adopt(ctx context.Context, r adopt.Request) error {
	err := a.mayAdopt(ctx, r)
	if err == nil {
		err = a.lend(r)
	}
	if err == nil {
		return nil
	}
	code := refusedInternal
	var refusal *adopt.Refusal
	if errors.As(err, &refusal) {
		code = refusal.Code
	}
	a.metrics.refusals.WithLabelValues(code).Inc()
	slog.Warn("pod not adopted", "namespace", r.Namespace, "pod", r.Name, "reason", code, "message", err.Error())
	if code != refusedUnreachable && code != refusedStarting {
		a.teller.warn(a.world.shown(r.Namespace, r.Name, r.UID), "NotAdopted", "The node's agent refused the pod. "+code+": "+err.Error())
	}
	return err
}

// mayAdopt is what the cluster says of the pod.
func (a *agent) mayAdopt(ctx context.Context, r adopt.Request) error {
	governing, err := a.world.governing()
	if err != nil {
		return later(refusedStarting, "see the log of the agent on this node", "the agent doesn't know yet which pods are allowed: %v", err)
	}
	if slices.Contains(a.options.reserved(), r.Namespace) {
		return refuse(refusedReserved, "remove the annotation "+watcher.GovernedAnnotation, "pods in namespace %s are never governed", r.Namespace)
	}
	if err := a.notCut(r.UID); err != nil {
		return err
	}
	pod, refusal := a.world.find(ctx, r.Namespace, r.Name, r.UID)
	if refusal != nil {
		return refusal
	}
	if reason, asked := pod.Annotations[watcher.CutAnnotation]; asked {
		return refuse(string(Requested), "delete the pod", "the pod's annotation %s says that it is to be cut off: %s", watcher.CutAnnotation, reason)
	}
	if broken := contract.Check(pod, governing.Policy); len(broken) > 0 {
		return refuse(string(ContractBroken), broken[0].Fix, "the pod breaks its contract%s: %s: %s", andMore(broken), broken[0].Field, broken[0].Says)
	}
	// Another agent may have to judge the pod by this policy, and have no plugin.json to read it from.
	if _, err := a.policies.with(governing.Policy); err != nil {
		return later(refusedInternal, "see that the agent on this node can write to "+filepath.Dir(a.options.Socket), "%v", err)
	}
	return nil
}

func andMore(broken []contract.Refusal) string {
	if len(broken) == 1 {
		return ""
	}
	return fmt.Sprintf(" in %d ways, first", len(broken))
}

func (a *agent) notCut(uid string) error {
	if kept, cut := a.cuts.has(uid); cut {
		if kept.Pending {
			return refuse(string(CutBefore), "delete the pod", "the pod is being cut off for good since %s (%s: %s)",
				kept.At.Format("2006-01-02T15:04:05Z"), kept.Code, kept.Reason)
		}
		return refuse(string(CutBefore), "delete the pod; if it is a static one, "+staticFix,
			"a pod of this UID was cut off for good at %s (%s: %s)", kept.At.Format("2006-01-02T15:04:05Z"), kept.Code, kept.Reason)
	}
	return nil
}

// lend is what the kernel says of the pod. Nothing is lent before its rules were compared with what the plugin recorded.
func (a *agent) lend(r adopt.Request) error {
	defer a.turn(r.ContainerID)()
	if err := a.notCut(r.UID); err != nil { // while the cluster was asked
		return err
	}
	boot, err := adopt.Boot()
	if err != nil {
		return err
	}
	if r.Boot != boot {
		return refuse(refusedNamespace, "delete the pod", "the request is of another boot of this node")
	}
	if p := a.holds(r.ContainerID); p != nil {
		return a.repeat(p, r)
	}
	netns, err := lock.Open(r.NetNS)
	if err != nil {
		return refuse(refusedNamespace, "see that the runtime's network namespaces are mounted into the agent (value agent.netnsDir)", "%v", err)
	}
	if err := a.first(netns, r); err != nil {
		return errors.Join(err, netns.Close())
	}
	return nil
}

// repeat answers an ADD that was asked for again.
func (a *agent) repeat(p *held, r adopt.Request) error {
	if p.who != whoOf(r) || r.In(p.netns.ID().Device, p.netns.ID().Inode) != nil {
		return refuse(refusedNamespace, "delete the pod", "sandbox %s is already that of pod %s/%s", r.ContainerID, p.namespace, p.name)
	}
	if p.cutting.Load() {
		return refuse(string(CutBefore), "delete the pod", "the pod is being cut off for good")
	}
	if err := p.netns.Renew(lock.Lease); err != nil {
		return refuse(refusedLease, "delete the pod", "the pod has no lease any more: %v", err)
	}
	return nil
}

func (a *agent) first(netns *lock.Namespace, r adopt.Request) error {
	if err := r.In(netns.ID().Device, netns.ID().Inode); err != nil {
		return refuse(refusedNamespace, "delete the pod", "%v", err)
	}
	if other := a.shares(netns.ID(), r.ContainerID); other != nil {
		return refuse(refusedNamespace, "delete the pod", "its network namespace is that of pod %s/%s already", other.namespace, other.name)
	}
	record, unused, err := a.records.get(r.Record)
	if err != nil {
		return refuse(refusedRules, "use holdfast-cni and agent of one release", "%v", err)
	}
	if err := a.lease(netns, r, record); err != nil {
		unused()
		return err
	}
	a.hold(whoOf(r), r.Rules, netns, record, unused, 0)
	a.metrics.adoptions.Inc()
	slog.Info("pod adopted", "namespace", r.Namespace, "pod", r.Name, "digest", r.Rules)
	return nil
}

// lease lends for the first time, or, where an agent lent before that died before it could answer, renews.
func (a *agent) lease(netns *lock.Namespace, r adopt.Request, record *lock.Record) error {
	if err := netns.Verify(*record); err != nil {
		return refuse(refusedRules, "delete the pod", "%v", err)
	}
	err := netns.FirstLease(lock.Lease)
	if errors.Is(err, lock.ErrTicketUsed) {
		if err = netns.Renew(lock.Lease); errors.Is(err, lock.ErrExpired) {
			return refuse(refusedLease, "delete the pod", "%v", err)
		}
	}
	if err != nil {
		return err
	}
	if err := a.stamp(netns, r.Rules); err != nil {
		o := order{NotAdopted, "its link lo can't be stamped: " + err.Error()}
		return errors.Join(err, netns.Cut(o.String()))
	}
	return nil
}

// prove records what was proved of a pod that is kept (N15): a person reads it; nothing is decided by it.
func (a *agent) prove(p *held, pod *corev1.Pod) {
	value := fmt.Sprintf("chain=%s rules=%s agent=%s", a.world.chainProof(), p.rules, a.release)
	a.marks.set(pod, watcher.ProofAnnotation, value)
	if pod.Annotations[watcher.ProofAnnotation] != "" {
		return // only the agent is another
	}
	a.teller.say(pod, corev1.EventTypeNormal, "Locked", "The pod's network is locked and leased: "+value)
}
