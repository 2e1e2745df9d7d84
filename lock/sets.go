package lock

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
)

// A set is a named one of the table.
type set struct {
	name, kind        string
	interval, timeout bool
	elements          []element
}

// An element holds its keys from first up to, not with, end; without end, first alone. A last address of all ones has no end that
// could be written: then open says that the range has none.
type element struct {
	text       string
	first, end []byte
	open       bool
}

const (
	kindFamily  = "nf_proto"
	kindAddr4   = "ipv4_addr"
	kindAddr6   = "ipv6_addr"
	kindService = "inet_service"
)

// families are the values of nf_proto: NFPROTO_IPV4 and NFPROTO_IPV6 of include/uapi/linux/netfilter.h.
var (
	familyIPv4 = element{text: "ipv4", first: []byte{2}}
	familyIPv6 = element{text: "ipv6", first: []byte{10}}
)

func (c Config) sets() []set {
	resolvers := func(v6 bool) []element {
		var ranges []netip.Prefix
		for _, addr := range c.Resolvers {
			ranges = append(ranges, netip.PrefixFrom(addr, addr.BitLen()))
		}
		return addresses(ofFamily(ranges, v6))
	}
	return []set{
		{name: setTicket, kind: kindFamily, elements: []element{familyIPv4}},
		{name: setAlive, kind: kindFamily, timeout: true},
		{name: "resolvers4", kind: kindAddr4, elements: resolvers(false)},
		{name: "resolvers6", kind: kindAddr6, elements: resolvers(true)},
		{name: "allowed4", kind: kindAddr4, interval: true, elements: intervals(ofFamily(c.AllowPrivate, false))},
		{name: "allowed6", kind: kindAddr6, interval: true, elements: intervals(ofFamily(c.AllowPrivate, true))},
		{name: "refused4", kind: kindAddr4, interval: true, elements: intervals(c.refusedOf(false))},
		{name: "refused6", kind: kindAddr6, interval: true, elements: intervals(c.refusedOf(true))},
		{name: "ingress", kind: kindService, elements: services(c.IngressPorts, c.HealthPort)},
	}
}

// addresses are single ones, sorted, each once.
func addresses(ranges []netip.Prefix) []element {
	var out []element
	for _, prefix := range outermost(ranges) {
		out = append(out, element{text: prefix.Addr().String(), first: prefix.Addr().AsSlice()})
	}
	return out
}

// intervals are ranges, sorted, without those that lie within another: the kernel refuses a set whose intervals overlap.
func intervals(ranges []netip.Prefix) []element {
	var out []element
	for _, prefix := range outermost(ranges) {
		end, open := after(prefix)
		out = append(out, element{text: prefix.String(), first: prefix.Addr().AsSlice(), end: end, open: open})
	}
	return out
}

// outermost sorts the ranges, which are masked, and leaves out every one that lies within another.
func outermost(ranges []netip.Prefix) []netip.Prefix {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var out []netip.Prefix
	for _, prefix := range sorted {
		if n := len(out); n == 0 || !out[n-1].Overlaps(prefix) {
			out = append(out, prefix)
		}
	}
	return out
}

// after is the first address behind the range; open reports that there is none.
func after(prefix netip.Prefix) (end []byte, open bool) {
	end = prefix.Addr().AsSlice()
	for bit := prefix.Bits() - 1; bit >= 0; bit-- {
		mask := byte(0x80) >> (bit % 8)
		end[bit/8] ^= mask
		if end[bit/8]&mask != 0 {
			return end, false
		}
	}
	return nil, true
}

// services are ports, sorted, each once, without the one that has a rule of its own.
func services(numbers []uint16, without uint16) []element {
	sorted := slices.DeleteFunc(slices.Clone(numbers), func(number uint16) bool { return number == without })
	slices.Sort(sorted)
	var out []element
	for _, number := range slices.Compact(sorted) {
		out = append(out, element{text: strconv.Itoa(int(number)), first: binary.BigEndian.AppendUint16(nil, number)})
	}
	return out
}
