package lock

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func valid() Config {
	return Config{Resolvers: addrs("10.96.0.10"), UID: SidecarUID, GID: SidecarGID, HealthPort: HealthPort}
}

func TestTextIsTheGoldenFiles(t *testing.T) {
	dual := valid()
	dual.Resolvers = addrs("169.254.20.10", "fd00:10:96::a", "10.96.0.10")
	dual.AllowPrivate = prefixes("10.1.0.0/16", "fd00:10:1::/48")
	dual.Refuse = prefixes("185.0.0.0/8", "2a00:1234::/32", "10.2.0.0/16")
	dual.IngressPorts = []uint16{8443, 443, 8443}
	for name, c := range map[string]Config{"least": valid(), "dual": dual} {
		t.Run(name, func(t *testing.T) {
			rules, err := Build(c)
			if err != nil {
				t.Fatal(err)
			}
			got := rules.Text() + "# " + rules.Digest() + "\n"
			path := filepath.Join("testdata", name+".nft")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s differs (-want +got); see whether it should, then go test ./lock -update:\n%s", path, diff)
			}
		})
	}
}

// The sidecar's own release has to come to the same digest from the same settings, however they were written (N11).
func TestDigestIsThatOfTheMeaning(t *testing.T) {
	build := func(change func(*Config)) string {
		c := valid()
		c.Resolvers = addrs("10.96.0.10", "fd00::a")
		c.AllowPrivate = prefixes("10.1.0.0/16", "10.2.0.0/16")
		change(&c)
		rules, err := Build(c)
		if err != nil {
			t.Fatal(err)
		}
		return rules.Digest()
	}
	base := build(func(*Config) {})
	for name, change := range map[string]func(*Config){
		"another order":         func(c *Config) { slices.Reverse(c.Resolvers); slices.Reverse(c.AllowPrivate) },
		"twice":                 func(c *Config) { c.AllowPrivate = append(c.AllowPrivate, c.AllowPrivate...) },
		"a range within one":    func(c *Config) { c.AllowPrivate = append(c.AllowPrivate, p("10.1.2.0/24")) },
		"refused anyway":        func(c *Config) { c.Refuse = prefixes("10.0.0.0/8", "192.168.1.0/24") },
		"the health port again": func(c *Config) { c.IngressPorts = []uint16{HealthPort} },
	} {
		if build(change) != base {
			t.Errorf("%s: another digest", name)
		}
	}
	for name, change := range map[string]func(*Config){
		"a resolver":    func(c *Config) { c.Resolvers = c.Resolvers[:1] },
		"a range":       func(c *Config) { c.AllowPrivate = c.AllowPrivate[:1] },
		"refuse":        func(c *Config) { c.Refuse = prefixes("9.9.9.0/24") },
		"the user":      func(c *Config) { c.UID++ },
		"the group":     func(c *Config) { c.GID++ },
		"the port":      func(c *Config) { c.HealthPort++ },
		"ingress ports": func(c *Config) { c.IngressPorts = []uint16{1} },
	} {
		if build(change) == base {
			t.Errorf("%s: the same digest", name)
		}
	}
}

// N7, N9.
func TestValidateNamesTheFaultAndTheFix(t *testing.T) {
	for _, test := range []struct {
		want   string
		change func(*Config)
	}{
		{"resolvers: none", func(c *Config) { c.Resolvers = nil }},
		{"resolvers[0] invalid IP: not an IP address", func(c *Config) { c.Resolvers = []netip.Addr{{}} }},
		{"resolvers[0] ::ffff:10.0.0.1: is an IPv4 address in IPv6 form; write 10.0.0.1", func(c *Config) { c.Resolvers = addrs("::ffff:10.0.0.1") }},
		{"has a zone; remove it", func(c *Config) { c.Resolvers = addrs("fe80::1%eth0") }},
		{"can't be a DNS server's address", func(c *Config) { c.Resolvers = addrs("127.0.0.53") }},
		{"allowPrivate[0] 169.254.0.0/16: holds 169.254.169.254/32", func(c *Config) { c.AllowPrivate = prefixes("169.254.0.0/16") }},
		{"allowPrivate[0] 168.63.129.0/24: holds 168.63.129.16/32", func(c *Config) { c.AllowPrivate = prefixes("168.63.129.0/24") }},
		{"allowPrivate[0] 100.64.0.0/10: holds 100.100.100.200/32", func(c *Config) { c.AllowPrivate = prefixes("100.64.0.0/10") }},
		{"allowPrivate[0] fc00::/7: holds fd00:ec2::254/128", func(c *Config) { c.AllowPrivate = prefixes("fc00::/7") }},
		{"allowPrivate[0] 0.0.0.0/0: is every address", func(c *Config) { c.AllowPrivate = prefixes("0.0.0.0/0") }},
		{"refuse[0] 10.1.2.3/16: not in its canonical form; write 10.1.0.0/16", func(c *Config) { c.Refuse = prefixes("10.1.2.3/16") }},
		{"refuse[0] ::ffff:10.0.0.0/104: is an IPv4 range in IPv6 form", func(c *Config) { c.Refuse = prefixes("::ffff:10.0.0.0/104") }},
		{"refuse[0] invalid Prefix: not a range", func(c *Config) { c.Refuse = []netip.Prefix{{}} }},
		{"the sidecar can't be root", func(c *Config) { c.UID = 0 }},
		{"the sidecar can't be root", func(c *Config) { c.GID = 0 }},
		{"0 is not a port", func(c *Config) { c.HealthPort = 0 }},
		{"0 is not a port", func(c *Config) { c.IngressPorts = []uint16{0} }},
	} {
		c := valid()
		test.change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
		if rules, err := Build(c); err == nil || len(rules.chains) > 0 {
			t.Errorf("%s: rules were built, error %v", test.want, err)
		}
	}
}

// Every row has a source, is in its canonical form, and is refused. (I1)
func TestRefusedTable(t *testing.T) {
	rules, err := Build(valid())
	if err != nil {
		t.Fatal(err)
	}
	var held []netip.Prefix
	for _, s := range rules.sets {
		if strings.HasPrefix(s.name, "refused") {
			for _, e := range s.elements {
				held = append(held, netip.MustParsePrefix(e.text))
			}
		}
	}
	for _, row := range Refused() {
		if row.What == "" || row.Source == "" || row.Prefix != row.Prefix.Masked() {
			t.Errorf("%v: has no use, no source, or bits behind its prefix", row)
		}
		if !slices.ContainsFunc(held, func(h netip.Prefix) bool { return h.Bits() <= row.Prefix.Bits() && h.Contains(row.Prefix.Addr()) }) {
			t.Errorf("%v: is in no set", row.Prefix)
		}
	}
}

func TestAfter(t *testing.T) {
	for _, test := range []struct{ prefix, want string }{
		{"10.0.0.0/8", "11.0.0.0"}, {"168.63.129.16/32", "168.63.129.17"}, {"10.255.0.0/16", "11.0.0.0"},
		{"fc00::/7", "fe00::"}, {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/128", "2001:db9::"},
	} {
		end, open := after(netip.MustParsePrefix(test.prefix))
		if got, _ := netip.AddrFromSlice(end); open || got.String() != test.want {
			t.Errorf("after %s: %v, open %v; want %s", test.prefix, got, open, test.want)
		}
	}
	for _, text := range []string{"240.0.0.0/4", "255.255.255.255/32", "ff00::/8"} {
		if end, open := after(netip.MustParsePrefix(text)); !open || end != nil {
			t.Errorf("after %s: %v, which is an address", text, end)
		}
	}
}
