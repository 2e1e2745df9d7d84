package lock

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// FuzzParseStamp: what is read is written back as it was, and nothing else is read.
func FuzzParseStamp(f *testing.F) {
	for _, seed := range []string{
		"holdfast/1 release=v0.3.0 rules=0123abcd beat=4242", "holdfast/1 beat=60 cut=an ephemeral container", "holdfast/1 beat=1 cut=a cut=b",
		"holdfast/1 release=a rules=b beat=1 rules=c beat=2", "holdfast/2 release=a", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStamp(text)
		if err != nil {
			if !errors.Is(err, ErrStamp) || s != (Stamp{}) {
				t.Fatalf("%q: %v with %v", text, err, s)
			}
		} else if s.String() != text || s.Validate() != nil || len(text) > stampMax {
			t.Fatalf("%q was read as %v", text, s)
		}
		cut := cutStamp(text, s.Beat)
		if got, err := ParseStamp(cut.String()); err != nil || got != cut {
			t.Fatalf("a cut for %q can't be read: %v", text, err)
		}
	})
}

// FuzzParseRecord: what is read survives being written, and equals itself alone.
func FuzzParseRecord(f *testing.F) {
	seed, err := json.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"flags":1,"sets":[{"name":"a","definition":"AA=="}],"objects":null,"chains":[{"name":"c","definition":null,"rules":[{"expressions":"AA=="}]}]}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRecord(data)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatal(err)
			}
			return
		}
		written, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRecord(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if err := r.Compare(again); err != nil {
			t.Fatal(err)
		}
		if err := sample().Compare(r); err == nil && len(r.Chains) != len(sample().Chains) {
			t.Fatal("another record is equal to the sample")
		}
	})
}

// FuzzBuild: whatever the settings, Build refuses them or makes rules that keep what must hold of any.
func FuzzBuild(f *testing.F) {
	f.Add([]byte{10, 96, 0, 10}, []byte{10, 1, 0, 0, 16}, []byte{9, 9, 9, 0, 24}, uint32(64128), uint32(64128), uint16(15021), uint16(443))
	f.Add(netip.MustParseAddr("fd00::a").AsSlice(), append(netip.MustParseAddr("fd00:1::").AsSlice(), 32), []byte{255, 255, 255, 255, 32}, uint32(1), uint32(1), uint16(1), uint16(1))
	f.Add([]byte{}, []byte{0, 0, 0, 0, 1}, []byte{128, 0, 0, 0, 1}, uint32(0), uint32(1), uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, resolvers, allowed, refused []byte, uid, gid uint32, health, ingress uint16) {
		c := Config{AllowPrivate: fuzzed(allowed), Refuse: fuzzed(refused), UID: uid, GID: gid, HealthPort: health, IngressPorts: []uint16{ingress}}
		for _, prefix := range fuzzed(resolvers) {
			c.Resolvers = append(c.Resolvers, prefix.Addr())
		}
		rules, err := Build(c)
		if err != nil {
			if !reflect.DeepEqual(rules, Rules{}) || c.Validate() == nil {
				t.Fatalf("%v, with rules or of valid settings", err)
			}
			return
		}
		slices.Reverse(c.AllowPrivate)
		slices.Reverse(c.Refuse)
		if again, err := Build(c); err != nil || again.Digest() != rules.Digest() {
			t.Fatalf("the order matters: %v", err)
		}
		for _, s := range rules.sets {
			checkSet(t, s)
		}
		if n := strings.Count(rules.Text(), "\n"); n < 90 || len(rules.Digest()) != 64 {
			t.Fatalf("%d lines, digest %q", n, rules.Digest())
		}
	})
}

// fuzzed reads a family's addresses and a length from each five or seventeen bytes.
func fuzzed(data []byte) []netip.Prefix {
	size := 5
	if len(data) >= 17 {
		size = 17
	}
	var out []netip.Prefix
	for ; len(data) >= size-1; data = data[min(len(data), size):] {
		a, _ := netip.AddrFromSlice(data[:size-1])
		bits := a.BitLen()
		if len(data) >= size {
			bits = int(data[size-1])
		}
		out = append(out, netip.PrefixFrom(a, bits).Masked())
	}
	return out
}

// checkSet wants elements in order, none overlapping the next: else the kernel would refuse the set.
func checkSet(t *testing.T, s set) {
	t.Helper()
	for i, e := range s.elements {
		if i+1 == len(s.elements) {
			break
		}
		next, end := s.elements[i+1], e.end
		if end == nil {
			end = e.first
		}
		if e.open || slices.Compare(e.first, next.first) >= 0 || slices.Compare(end, next.first) > 0 {
			t.Fatalf("set %s: %s before %s", s.name, e.text, next.text)
		}
	}
	if s.kind == kindService {
		for _, e := range s.elements {
			if binary.BigEndian.Uint16(e.first) == 0 {
				t.Fatalf("set %s: port 0", s.name)
			}
		}
	}
}
