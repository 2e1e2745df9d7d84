package lock

import (
	"net/netip"
	"slices"
)

// Row is one range that no sidecar may reach unless AllowPrivate says so.
type Row struct {
	Prefix netip.Prefix
	// What the range is for, and the source of that: an RFC, an IANA registry or the vendor's documentation.
	What, Source string
	// Metadata marks the addresses at which a cloud hands out credentials or configuration: AllowPrivate cannot hold them.
	Metadata bool
}

// Refused returns the built-in ranges, IPv4 first. A row may lie within another: it is there for its own source. They follow the
// IANA special-purpose address registries (RFC 6890; iana.org/assignments/iana-ipv4-special-registry and …-ipv6-special-registry)
// without the three blocks that are globally reachable by design (AS112 and AMT), plus multicast, and the addresses at which clouds
// serve metadata.
func Refused() []Row { return slices.Clone(refused) }

var refused = []Row{
	{p("0.0.0.0/8"), "this network", "RFC 791 section 3.2, RFC 1122 section 3.2.1.3", false},
	{p("10.0.0.0/8"), "private use", "RFC 1918", false},
	{p("100.64.0.0/10"), "shared address space (carrier-grade NAT)", "RFC 6598", false},
	{p("100.100.100.200/32"), "Alibaba Cloud metadata; within 100.64.0.0/10", "Alibaba Cloud ECS: instance metadata", true},
	{p("127.0.0.0/8"), "loopback", "RFC 1122 section 3.2.1.3", false},
	{p("168.63.129.16/32"), "Azure WireServer: DHCP, DNS, health and the VM agent's goal state; a public address", "Azure: what is IP address 168.63.129.16", true},
	{p("169.254.0.0/16"), "link-local", "RFC 3927", false},
	{p("169.254.169.254/32"), "metadata of AWS, Azure, Google Cloud, OpenStack, DigitalOcean and Oracle; within 169.254.0.0/16", "AWS EC2: IMDS; Azure: IMDS; Google Compute Engine: metadata server", true},
	{p("169.254.170.2/32"), "AWS ECS task credentials; within 169.254.0.0/16", "AWS ECS: task IAM role", true},
	{p("169.254.170.23/32"), "AWS EKS Pod Identity credentials; within 169.254.0.0/16", "AWS EKS: Pod Identity agent", true},
	{p("172.16.0.0/12"), "private use", "RFC 1918", false},
	{p("192.0.0.0/24"), "IETF protocol assignments (Oracle Cloud's former metadata address 192.0.0.192 too)", "RFC 6890 section 2.1", false},
	{p("192.0.2.0/24"), "documentation (TEST-NET-1)", "RFC 5737", false},
	{p("192.88.99.0/24"), "6to4 relay anycast, deprecated", "RFC 7526", false},
	{p("192.168.0.0/16"), "private use", "RFC 1918", false},
	{p("198.18.0.0/15"), "benchmarking", "RFC 2544", false},
	{p("198.51.100.0/24"), "documentation (TEST-NET-2)", "RFC 5737", false},
	{p("203.0.113.0/24"), "documentation (TEST-NET-3)", "RFC 5737", false},
	{p("224.0.0.0/4"), "multicast", "RFC 5771", false},
	{p("240.0.0.0/4"), "reserved, and limited broadcast 255.255.255.255", "RFC 1112 section 4, RFC 8190", false},

	{p("::/8"), "unspecified, loopback, IPv4-compatible and the rest of a block reserved by the IETF", "RFC 4291 sections 2.4 and 2.5", false},
	{p("::ffff:0:0/96"), "IPv4-mapped; within ::/8", "RFC 4291 section 2.5.5.2", false},
	{p("64:ff9b::/96"), "NAT64 well-known prefix: any IPv4 address in disguise; within ::/8", "RFC 6052 section 2.1", false},
	{p("64:ff9b:1::/48"), "NAT64 local-use prefix; within ::/8", "RFC 8215", false},
	{p("100::/64"), "discard-only", "RFC 6666", false},
	{p("100:0:0:1::/64"), "dummy prefix", "RFC 9780", false},
	{p("2001::/23"), "IETF protocol assignments: Teredo 2001::/32, benchmarking, ORCHID, DRIP", "RFC 2928, RFC 4380, RFC 5180, RFC 7343, RFC 9374", false},
	{p("2001:db8::/32"), "documentation", "RFC 3849", false},
	{p("2002::/16"), "6to4: any IPv4 address in disguise", "RFC 3056", false},
	{p("3fff::/20"), "documentation", "RFC 9637", false},
	{p("5f00::/16"), "segment routing (SRv6) SIDs", "RFC 9602", false},
	{p("fc00::/7"), "unique local", "RFC 4193", false},
	{p("fd00:ec2::254/128"), "AWS metadata; within fc00::/7", "AWS EC2: IMDS over IPv6", true},
	{p("fd00:ec2::23/128"), "AWS EKS Pod Identity credentials; within fc00::/7", "AWS EKS: Pod Identity agent", true},
	{p("fd20:ce::254/128"), "Google Cloud metadata; within fc00::/7", "Google Compute Engine: metadata server of IPv6-only instances", true},
	{p("fe80::/10"), "link-local", "RFC 4291 section 2.5.6", false},
	{p("fec0::/10"), "site-local, deprecated", "RFC 3879", false},
	{p("ff00::/8"), "multicast", "RFC 4291 section 2.7", false},
}

func p(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// metadataIn is the first metadata row that overlaps the range.
func metadataIn(prefix netip.Prefix) (Row, bool) {
	for _, row := range refused {
		if row.Metadata && row.Prefix.Overlaps(prefix) {
			return row, true
		}
	}
	return Row{}, false
}

// refusedOf are the built-in ranges and those of c, of one family.
func (c Config) refusedOf(v6 bool) []netip.Prefix {
	ranges := ofFamily(c.Refuse, v6)
	for _, row := range refused {
		ranges = append(ranges, ofFamily([]netip.Prefix{row.Prefix}, v6)...)
	}
	return ranges
}

func ofFamily(ranges []netip.Prefix, v6 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, prefix := range ranges {
		if prefix.Addr().Is6() == v6 {
			out = append(out, prefix)
		}
	}
	return out
}
