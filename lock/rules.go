package lock

import "fmt"

// Rules is the rule set of one pod. Its zero value holds no rule and is never applied. Two values are the same lock if their
// Digest is equal.
type Rules struct {
	sets     []set
	counters []string
	chains   []chain
}

// A chain is hooked where hook is not empty; else others go to it.
type chain struct {
	name, hook string
	priority   int32
	policy     verdict
	rules      []rule
}

type rule []statement

const (
	// Table is the name of the lock's table, of family inet, in the pod's network namespace.
	Table = "holdfast"
	// raw is before connection tracking (-200) and after the reassembly of fragments (-400), filter after any destination NAT
	// (-100): include/uapi/linux/netfilter_ipv4.h, enum nf_ip_hook_priorities.
	raw    = -300
	filter = 0

	setTicket = "ticket"
	setAlive  = "alive"
)

// The reasons why a packet goes no further: the names of the counters.
const (
	CountLeaseIn  = "lease_in"  // came in without a lease
	CountLeaseOut = "lease_out" // went out without one
	CountOther    = "other_uid" // of another user or group than the sidecar's
	CountNoOwner  = "no_owner"  // of no user, or an answer of the sidecar's, in no flow that the lock let begin
	CountRefused  = "refused"   // of the sidecar, to where it may not go
	CountInput    = "input"     // came in, asked for by nobody
	CountForward  = "forward"   // would have been passed on
)

// Build makes the rules. The order of c's lists and what stands in them twice do not matter: equal settings give equal rules.
func Build(c Config) (Rules, error) {
	if err := c.Validate(); err != nil {
		return Rules{}, fmt.Errorf("build the rules: %w", err)
	}
	return Rules{
		sets:     c.sets(),
		counters: []string{CountLeaseIn, CountLeaseOut, CountOther, CountNoOwner, CountRefused, CountInput, CountForward},
		chains:   []chain{cutIn(), cutOut(), c.lockOut(), c.sidecar(), c.lockIn(), lockForward()},
	}, nil
}

// The chains drop by policy what no rule accepted; the last rule only counts it.

// cutIn and cutOut pass nothing without a lease: they need no connection tracking and no process.
func cutIn() chain {
	return chain{"cut_in", "prerouting", raw, drop, []rule{
		{loopback{}, accept},
		{leased{setAlive}, accept},
		{count(CountLeaseIn)},
	}}
}

func cutOut() chain {
	return chain{"cut_out", "output", raw, drop, []rule{
		{loopback{out: true}, accept},
		{leased{setAlive}, accept},
		{count(CountLeaseOut)},
	}}
}

// lockOut says who may send. The order is what makes it tight:
//   - Other users are refused before the sidecar's flows continue: such a flow's connection is known for a while after the sidecar
//     closed it, and another user could send into it from the same source port.
//   - The flows continue without asking for a user, since FIN, RST and the last ACK of a closed socket have none. They come before what is
//     seldom: every packet passes here.
//   - None begins again there: connection tracking takes a SYN in a connection that it knows for a part of it, and a socket that a user
//     has the kernel make has no file, so no user (SMC's; MPTCP's before Linux 6.5; RxRPC's of UDP). A SYN and a datagram are judged as
//     a new flow's are.
//   - Neighbour discovery comes after the refusal too. The kernel's own has no user and reaches it, and a raw socket of another user
//     can't use its messages as a tunnel. Its listener reports go no further: they say which groups any user chose to join.
//   - A call to the health port is the sidecar's once the sidecar has answered it. Anybody may listen there while the sidecar is down, by a
//     socket without a user too. Before the sidecar's answer nothing goes out, not even a reset.
//   - Nobody else starts a flow: a packet without a user reaches the end, a socket of the kernel's too.
//   - The sidecar starts one by what goes the way of a flow's first packet alone. Any user can call a port of the sidecar's over lo from
//     an address that isn't the pod's (IPV6_FREEBIND), and the answer would leave by the link. So would an answer that connection tracking
//     knows no flow for: the match is of what may pass.
//
// TCP is refused by reset, so that a program that may not connect fails at once instead of waiting.
func (c Config) lockOut() chain {
	notUser := owner{not: true, id: c.UID}
	return chain{"lock_out", "output", filter, drop, []rule{
		{loopback{out: true}, accept},
		{mark(ofIngress), established, reply, accept},
		{notUser, tcp, count(CountOther), reset{}},
		{notUser, count(CountOther), drop},
		{owner{group: true, not: true, id: c.GID}, count(CountOther), drop},
		{mark(ofSidecar), established, noSYN{}, accept},
		{neighbourSolicit, accept},
		{neighbourAdvert, accept},
		{marked{}, reply, owner{id: c.UID}, setMark(ofSidecar), accept},
		{owner{id: c.UID}, original, goTo("sidecar")},
		{count(CountNoOwner)},
	}}
}

// sidecar says where the sidecar may begin a flow, and send datagrams.
func (c Config) sidecar() chain {
	begin := setMark(ofSidecar)
	return chain{name: "sidecar", rules: []rule{
		{to{false, "resolvers4"}, port{udp, 53}, begin, accept},
		{to{false, "resolvers4"}, port{tcp, 53}, begin, accept},
		{to{true, "resolvers6"}, port{udp, 53}, begin, accept},
		{to{true, "resolvers6"}, port{tcp, 53}, begin, accept},
		{to{false, "allowed4"}, tcp, begin, accept},
		{to{true, "allowed6"}, tcp, begin, accept},
		{to{false, "refused4"}, count(CountRefused), drop},
		{to{true, "refused6"}, count(CountRefused), drop},
		{tcp, begin, accept},
		{count(CountRefused), drop},
	}}
}

// lockIn says what may come in: answers, and TCP to the open ports. Who may answer is lockOut's to say. Errors that belong to a flow come
// with it, or a smaller path MTU on the way would stop it (RFC 1191, RFC 8201).
func (c Config) lockIn() chain {
	return chain{"lock_in", "input", filter, drop, []rule{
		{loopback{}, accept},
		{marked{}, established | related, accept},
		{neighbourSolicit, accept},
		{neighbourAdvert, accept},
		{port{tcp, c.HealthPort}, fresh, setMark(ofHealth), accept},
		{ports{"ingress"}, fresh, setMark(ofIngress), accept},
		{count(CountInput)},
	}}
}

// lockForward keeps the pod from being a router.
func lockForward() chain {
	return chain{"lock_fwd", "forward", filter, drop, []rule{{count(CountForward)}}}
}
