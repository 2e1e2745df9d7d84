package lock

import (
	"fmt"
	"strconv"
	"strings"
)

// A statement is one part of a rule: a match, something done on the way, or the end. Its text is what nft reads and prints.
type statement interface{ text() string }

type (
	// loopback matches the interface lo, whose index is 1 in every network namespace (net/core/dev.c: loopback comes first).
	loopback struct{ out bool }
	// owner matches the user or group of the socket's file, as the namespace's user namespace numbers it. A packet without
	// a socket, or whose socket has no file, matches neither form (net/netfilter/nft_meta.c: nft_meta_get_eval_skugid).
	owner struct {
		group, not bool
		id         uint32
	}
	// protocol matches the transport protocol.
	protocol uint8
	// icmp6 matches an ICMPv6 message of IPv6.
	icmp6 uint8
	// to matches a destination in a set, and with it the family.
	to struct {
		v6  bool
		set string
	}
	// port matches the transport protocol and one destination port.
	port struct {
		protocol protocol
		port     uint16
	}
	// ports matches a TCP destination port in a set.
	ports struct{ set string }
	// leased matches while the packet's family is in the set.
	leased struct{ set string }
	// noSYN matches a TCP segment that begins nothing.
	noSYN struct{}
	// state matches any of the connection's states (bits of NF_CT_STATE_BIT).
	state uint32
	// direction matches packets that go as the connection's first did, or the other way. No packet matches that connection tracking
	// knows no connection for (net/netfilter/nft_ct.c: nft_ct_get_eval).
	direction byte
	// marked matches any of the connection's marks, mark one, and setMark sets it.
	marked  struct{}
	mark    uint32
	setMark uint32
	// count counts in the named counter.
	count string
	// verdict ends the rule: accept or drop.
	verdict string
	// reset answers a TCP packet with a reset.
	reset struct{}
	// goTo continues in another chain and does not come back.
	goTo string
)

const (
	accept verdict = "accept"
	drop   verdict = "drop"

	tcp protocol = 6
	udp protocol = 17

	established state = 2
	related     state = 4
	fresh       state = 8

	// IP_CT_DIR_ORIGINAL and IP_CT_DIR_REPLY of include/uapi/linux/netfilter/nf_conntrack_tuple_common.h.
	original direction = 0
	reply    direction = 1

	// The kernel's neighbour discovery (RFC 4861).
	neighbourSolicit icmp6 = 135
	neighbourAdvert  icmp6 = 136

	// What the connection marks mean: whose flow it is. No mark of a packet is used, so none of the host's is touched.
	ofSidecar = 1 // the sidecar began it, or answered it
	ofIngress = 2 // it was called at an ingress port
	ofHealth  = 3 // it was called at the health port, and the sidecar hasn't answered
)

func (s loopback) text() string {
	if s.out {
		return `oif "lo"`
	}
	return `iif "lo"`
}

func (s owner) text() string {
	key, not := "skuid ", ""
	if s.group {
		key = "skgid "
	}
	if s.not {
		not = "!= "
	}
	return "meta " + key + not + strconv.FormatUint(uint64(s.id), 10)
}

func (s protocol) name() string {
	if s == tcp {
		return "tcp"
	}
	return "udp"
}

func (s protocol) text() string { return "meta l4proto " + s.name() }

func (s icmp6) text() string {
	names := map[icmp6]string{neighbourSolicit: "nd-neighbor-solicit", neighbourAdvert: "nd-neighbor-advert"}
	return "meta nfproto ipv6 icmpv6 type " + names[s]
}

func (s to) text() string {
	if s.v6 {
		return "ip6 daddr @" + s.set
	}
	return "ip daddr @" + s.set
}

func (s port) text() string   { return fmt.Sprintf("%s dport %d", s.protocol.name(), s.port) }
func (s ports) text() string  { return "tcp dport @" + s.set }
func (s leased) text() string { return "meta nfproto @" + s.set }
func (noSYN) text() string    { return "tcp flags ! syn" }

func (s state) text() string {
	var names []string
	for _, bit := range []struct {
		bit  state
		name string
	}{{established, "established"}, {related, "related"}, {fresh, "new"}} {
		if s&bit.bit != 0 {
			names = append(names, bit.name)
		}
	}
	return "ct state " + strings.Join(names, ",")
}

func (s direction) text() string {
	if s == reply {
		return "ct direction reply"
	}
	return "ct direction original"
}

func (marked) text() string    { return "ct mark != 0" }
func (s mark) text() string    { return fmt.Sprintf("ct mark %d", s) }
func (s setMark) text() string { return fmt.Sprintf("ct mark set %d", s) }
func (s count) text() string   { return "counter name " + string(s) }
func (s verdict) text() string { return string(s) }
func (reset) text() string     { return "reject with tcp reset" }
func (s goTo) text() string    { return "goto " + string(s) }
