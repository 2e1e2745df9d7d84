package lock

import "errors"

var (
	// ErrNotNamespace means that a path does not lead to a network namespace.
	ErrNotNamespace = errors.New("not a network namespace; give the path that the runtime hands to CNI plugins")
	// ErrGone means that a path, or the namespace behind it, is no longer there.
	ErrGone = errors.New("the namespace is gone; the pod has ended")
	// ErrHostNamespace means that a path leads to the host's network namespace, or to this process's own: never locked, never cut.
	ErrHostNamespace = errors.New("this is the host's network namespace; only a pod's own may be locked or cut")
	// ErrLocked means that a table of the lock's name is there already.
	ErrLocked = errors.New("the namespace is locked already; a lock is applied once, to a new sandbox")
	// ErrNotLocked means that the namespace holds no lock.
	ErrNotLocked = errors.New("the namespace holds no lock; the pod got past the chain, or its lock was deleted")
	// ErrTicketUsed means that the namespace's one ticket for a first lease was used up.
	ErrTicketUsed = errors.New("the ticket for a first lease was used already; delete the pod, a new one gets its own")
	// ErrExpired means that there is no lease any more, so that it can't be renewed.
	ErrExpired = errors.New("the lease has run out and can't be renewed; delete the pod, it is cut off for good")
	// ErrDiffers means that the kernel does not hold the rules that were meant or recorded.
	ErrDiffers = errors.New("the kernel's rules differ")
	// ErrOverrun means that more was changed in a namespace than the kernel keeps for a Monitor.
	ErrOverrun = errors.New("more was changed than could be followed")
	// ErrStamp means that a text is not a stamp of this format.
	ErrStamp = errors.New("not a stamp of the form \"holdfast/1 release=… rules=… beat=…\"")
	// ErrNotStamped means that the link lo has no alias.
	ErrNotStamped = errors.New("lo carries no stamp; the node has no agent, or it has not adopted the pod")
	// ErrRecord means that a text is not a record of a lock.
	ErrRecord = errors.New("not a record of a lock")
	// ErrKernel means that the kernel lacks what the lock needs.
	ErrKernel = errors.New("the kernel can't hold the lock; run Linux 5.10 or later with nf_tables, nft_ct, nft_reject_inet and nf_conntrack")
)
