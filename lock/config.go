package lock

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

const (
	// SidecarUID and SidecarGID are the user and the group that the sidecar runs as, inside the pod's user namespace.
	SidecarUID = 64128
	SidecarGID = 64128
	// HealthPort is the TCP port on which the kubelet asks the sidecar for its health.
	HealthPort = 15021
)

// Config is what the rules are made from. Its zero value is not valid: nothing but Refuse, AllowPrivate and IngressPorts has a
// default.
type Config struct {
	// Resolvers are the DNS servers that the sidecar may ask, by UDP and TCP on port 53. At least one.
	Resolvers []netip.Addr
	// AllowPrivate are the ranges that the sidecar may reach by TCP though they are refused otherwise.
	AllowPrivate []netip.Prefix
	// Refuse are ranges refused beside those of Refused. Where AllowPrivate overlaps them, AllowPrivate wins.
	Refuse []netip.Prefix
	// UID and GID are the sidecar's, as seen from inside the user namespace that owns the pod's network namespace.
	UID, GID uint32
	// HealthPort and IngressPorts are the TCP ports on which the pod can be reached. On HealthPort the sidecar alone answers, though it
	// be one of IngressPorts.
	HealthPort   uint16
	IngressPorts []uint16
}

// Validate reports everything wrong with c, joined, each fault with its fix.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("lock: "+format, args...)) }
	if len(c.Resolvers) == 0 {
		fault("resolvers: none; name the cluster DNS service addresses")
	}
	for i, addr := range c.Resolvers {
		if text := checkResolver(addr); text != "" {
			fault("resolvers[%d] %s: %s", i, addr, text)
		}
	}
	for i, prefix := range c.AllowPrivate {
		if text := checkRange(prefix); text != "" {
			fault("allowPrivate[%d] %s: %s", i, prefix, text)
		} else if row, found := metadataIn(prefix); found {
			fault("allowPrivate[%d] %s: holds %s (%s), which is never allowed; narrow the range", i, prefix, row.Prefix, row.What)
		}
	}
	for i, prefix := range c.Refuse {
		if text := checkRange(prefix); text != "" {
			fault("refuse[%d] %s: %s", i, prefix, text)
		}
	}
	// Root would be every process that lacks a user, and a packet of the kernel is never the sidecar's.
	if c.UID == 0 || c.GID == 0 {
		fault("uid %d and gid %d: the sidecar can't be root; give it %d and %d", c.UID, c.GID, SidecarUID, SidecarGID)
	}
	if c.HealthPort == 0 || slices.Contains(c.IngressPorts, 0) {
		fault("health port %d, ingress ports %v: 0 is not a port; write 1 to 65535", c.HealthPort, c.IngressPorts)
	}
	return errors.Join(faults...)
}

func checkResolver(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "not an IP address"
	case addr.Zone() != "":
		return "has a zone; remove it"
	case addr.Is4In6():
		return fmt.Sprintf("is an IPv4 address in IPv6 form; write %s", addr.Unmap())
	case addr.IsUnspecified(), addr.IsMulticast(), addr.IsLoopback():
		return "can't be a DNS server's address; write the address of the Service"
	}
	return ""
}

func checkRange(prefix netip.Prefix) string {
	switch {
	case !prefix.IsValid():
		return "not a range"
	case prefix.Bits() == 0:
		return "is every address; write the ranges that are meant"
	case prefix.Addr().Is4In6():
		return "is an IPv4 range in IPv6 form; write it as IPv4"
	case prefix != prefix.Masked():
		return fmt.Sprintf("not in its canonical form; write %s", prefix.Masked())
	}
	return ""
}
