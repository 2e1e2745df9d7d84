package agent

import (
	"errors"
	"fmt"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
)

// Code is why a pod was cut off, as a word for metrics, Events and people.
type Code string

// Why pods are cut off.
const (
	Expired        Code = "Expired"        // the lease ran out: for good
	Tampered       Code = "Tampered"       // the kernel's rules are not those recorded at ADD
	ContractBroken Code = "ContractBroken" // an update of the pod broke its contract
	Requested      Code = "Requested"      // somebody asked for it
	PastChain      Code = "PastChain"      // it runs without a lock
	StateLost      Code = "StateLost"      // it is locked, and what was recorded of it is missing, unreadable or of another sandbox
	CutBefore      Code = "CutBefore"      // its UID was cut off in an earlier sandbox
	NotAdopted     Code = "NotAdopted"     // its adoption failed half-way
)

// codes are all of them, so that each has its metric from the start.
func codes() []Code {
	return []Code{Expired, Tampered, ContractBroken, Requested, PastChain, StateLost, CutBefore, NotAdopted}
}

// order asks for a pod to be cut off.
type order struct {
	code Code
	says string
}

// maxText leaves room in an Event's note, and in the 4,096 characters that the chart's policy allows an annotation.
const maxText = 900

// String is for people. What it says may be anybody's, and is cut short: an annotation that is too long is never written.
func (o order) String() string { return clip(string(o.code)+": "+o.says, maxText) }

// orderFor is what an error of the kernel's or of a state file means for a pod that has a lock; false where it may pass.
func orderFor(err error) (order, bool) {
	switch {
	case errors.Is(err, lock.ErrExpired):
		return order{Expired, "its lease ran out while no agent renewed it"}, true
	case errors.Is(err, lock.ErrNotLocked):
		return order{Tampered, "somebody deleted its lock"}, true
	case errors.Is(err, lock.ErrDiffers):
		return order{Tampered, "somebody changed its rules: " + err.Error()}, true
	case errors.Is(err, adopt.ErrOtherBoot), errors.Is(err, adopt.ErrOtherNamespace), errors.Is(err, adopt.ErrState),
		errors.Is(err, adopt.ErrNoState), errors.Is(err, lock.ErrRecord):
		return order{StateLost, "what was recorded at its start can't be used: " + err.Error()}, true
	}
	return order{}, false
}

// Codes of refusals, beside those of Code.
const (
	refusedStarting    = "Starting"
	refusedReserved    = "Reserved"
	refusedUnknown     = "PodUnknown"
	refusedUnreachable = "APIUnreachable"
	refusedElsewhere   = "OtherNode"
	refusedStatic      = "StaticPod"
	refusedNamespace   = "OtherNamespace"
	refusedRules       = "RulesDiffer"
	refusedLease       = "LeaseLost"
	refusedInternal    = "Internal"
)

// staticFix is what to do with a static pod.
const staticFix = "run it by a DaemonSet, or outside the governed namespaces"

func refusals() []string {
	return []string{refusedStarting, refusedReserved, refusedUnknown, refusedUnreachable, refusedElsewhere, refusedStatic, refusedNamespace,
		refusedRules, refusedLease, refusedInternal, string(ContractBroken), string(Requested), string(CutBefore)}
}

func refuse(code, fix, format string, args ...any) *adopt.Refusal {
	return &adopt.Refusal{Code: code, Says: fmt.Sprintf(format, args...), Fix: fix}
}

// later is a refusal of a pod that nothing is wrong with.
func later(code, fix, format string, args ...any) *adopt.Refusal {
	r := refuse(code, fix, format, args...)
	r.Retry = true
	return r
}
