// Package lock is the network lock of one pod: the rules in the pod's own network namespace, the lease without which they let
// nothing pass, and the stamp by which a process in the pod can read both.
//
// Build turns a Config into Rules, a value with a canonical text (Rules.Text) and a digest of it (Rules.Digest). On Linux a
// Namespace applies them in one transaction, reads back what the kernel holds (Record), lends (FirstLease, Renew), stamps and
// cuts. Whoever changes a rule changes Build and its golden file.
//
// What the kernel guarantees. The table is created exclusively, with one element in set ticket. The first lease is one
// transaction {delete ticket, add alive}, a renewal is one transaction {delete alive, add alive}. What was used up or has expired
// cannot be deleted, so the transaction fails and nothing is added: a lease can only run out, and a pod whose lease ran out stays
// cut until its namespace is gone.
//
// What it does not. Netfilter's inet hooks see IP only. AF_PACKET, AF_XDP and BPF redirection pass them by, and need a capability over
// the pod's user namespace (CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF), which no container of a governed pod may have. AF_PPPOX, AF_VSOCK and
// AF_QIPCRTR pass them by too, and need none, only a kernel with their modules (pppoe, vsock, qrtr): a seccomp profile has to refuse
// them. RuntimeDefault does not: containerd's own refuses AF_VSOCK, but not the other two, and none through the 32-bit socketcall, whose family
// no filter sees. docs/design.md says what closes them. A table of somebody else in the
// same namespace cannot accept what this one drops, since every base chain of a hook has to accept; but it could rewrite an address
// behind the filter (a nat chain of a later priority), copy packets (dup, fwd) or redirect them from a netdev hook. Making one
// takes CAP_NET_ADMIN over the namespace as well, with which the lock itself could be deleted. So only this package's own tables
// are compared, and Monitor reports every change of any table.
//
// The kernel floor is Linux 5.10; Supported says whether this kernel is above it and does what is needed, by doing it in
// a namespace of its own.
package lock
