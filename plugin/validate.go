package plugin

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// Validate reports everything wrong with c, joined, each fault with its key and its fix. The namespaces in reserved
// (kube-system, Cilium's, Holdfast's own) are never governed: governing one could stop the cluster's own pods.
func (c Config) Validate(reserved ...string) error {
	var faults faults
	if c.Type != Type {
		faults.add("type %q: is not this plugin; write %q", c.Type, Type)
	}
	if !c.Capabilities[PodAnnotations] {
		faults.add("capabilities: lack %q: true; add it, or annotated pods go ungoverned", PodAnnotations)
	}
	for name := range c.Capabilities {
		if name != PodAnnotations {
			faults.add("capabilities[%q]: not one the plugin uses; remove it", name)
		}
	}
	if len(c.Resolvers) == 0 {
		faults.add("resolvers: empty; list the cluster DNS service addresses (kubectl -n kube-system get service kube-dns -o jsonpath='{.spec.clusterIPs}')")
	}
	bounded(&faults, "resolvers", c.Resolvers)
	bounded(&faults, "allowPrivate", c.AllowPrivate)
	bounded(&faults, "refuse", c.Refuse)
	bounded(&faults, "ingress.ports", c.Ingress.Ports)
	each(&faults, "resolvers", c.Resolvers, checkResolver)
	each(&faults, "governedNamespaces", c.GovernedNamespaces, func(name string) string {
		if slices.Contains(reserved, name) {
			return "is never governed; remove it"
		}
		if !isLabel(name) {
			return "not a namespace name; write lower-case letters, digits and -"
		}
		return ""
	})
	each(&faults, "allowPrivate", c.AllowPrivate, checkRange)
	each(&faults, "refuse", c.Refuse, checkRange)
	each(&faults, "sidecar.images", c.Sidecar.Images, func(digest string) string {
		if digits, found := strings.CutPrefix(digest, "sha256:"); !found || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "" {
			return "not a digest; write sha256: and 64 lower-case hexadecimal digits"
		}
		return ""
	})
	each(&faults, "ingress.ports", c.Ingress.Ports, func(port int) string {
		if port < 1 || port > 65535 {
			return "not a port; write 1 to 65535"
		}
		return ""
	})
	each(&faults, "seccompProfiles", c.SeccompProfiles, func(name string) string {
		if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || len(name) > 2 && name[:3] == "../" {
			return "not a path inside the kubelet's seccomp folder; write it relative and without .."
		}
		return ""
	})
	each(&faults, "runtimeClasses", c.RuntimeClasses, func(name string) string {
		for part := range strings.SplitSeq(name, ".") {
			if !isLabel(part) || len(name) > 253 {
				return "not a RuntimeClass's name; write lower-case letters, digits, - and ."
			}
		}
		return ""
	})
	if len(faults) == 0 {
		faults.refusedByLock(c)
	}
	if extra := len(faults) - faultsTold; extra > 0 {
		faults = append(faults[:faultsTold], fmt.Errorf("plugin.json: and %d faults more", extra))
	}
	return errors.Join(faults...)
}

const faultsTold = 20

// most bounds each list that becomes part of the lock. With all of them that long the kernel is proved to take the lock, and the
// agent to be told of it.
const most = 1000

// bounded is a list's own fault, not a value's.
func bounded[T any](f *faults, key string, values []T) {
	if len(values) > most {
		f.add("%s: %d entries, more than %d; write fewer", key, len(values), most)
	}
}

type faults []error

func (f *faults) add(format string, args ...any) {
	*f = append(*f, fmt.Errorf("plugin.json: "+format, args...))
}

// each reports the values that check refuses, and those that stand twice.
func each[T comparable](f *faults, key string, values []T, check func(T) string) {
	seen := map[T]int{}
	for i, value := range values {
		if fault := check(value); fault != "" {
			f.add("%s[%d] %#v: %s", key, i, value, fault)
		} else if first, found := seen[value]; found {
			f.add("%s[%d] %#v: stands at [%d] already; remove one", key, i, value, first)
		} else {
			seen[value] = i
		}
	}
}

// isLabel reports whether a name is an RFC 1123 label.
func isLabel(name string) bool {
	return len(name) > 0 && len(name) < 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && name[0] != '-' && name[len(name)-1] != '-'
}

func checkResolver(text string) string {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return "not an IP address"
	case addr.Zone() != "":
		return "has a zone; a pod cannot use it, remove it"
	case addr.Is4In6():
		return fmt.Sprintf("is an IPv4 address in IPv6 form; write %s", addr.Unmap())
	case addr.IsUnspecified(), addr.IsMulticast(), addr.IsLoopback():
		return "cannot be a DNS server's address; write the address of the Service"
	case addr.String() != text:
		return fmt.Sprintf("not in its canonical form; write %s", addr)
	}
	return ""
}

func checkRange(text string) string {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return "not a range in CIDR form; write for example 10.1.0.0/16"
	case prefix.Bits() == 0:
		return "is every address; write the ranges that are meant"
	case prefix.Addr().Is4In6():
		return "is an IPv4 range in IPv6 form; write it as IPv4"
	case prefix.Masked().String() != text:
		return fmt.Sprintf("not in its canonical form; write %s", prefix.Masked())
	}
	return ""
}
