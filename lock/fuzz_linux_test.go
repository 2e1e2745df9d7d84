package lock

import (
	"bytes"
	"testing"
)

// FuzzAttributes: whatever is read as netlink attributes, and as a rule's expressions, is written back in one form.
func FuzzAttributes(f *testing.F) {
	rules, err := Build(valid())
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range rules.chains {
		for _, r := range c.rules {
			encoded, err := list(nil).rule(r)
			if err != nil {
				f.Fatal(err)
			}
			f.Add([]byte(encoded))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if plain := plainExpressions(data); !bytes.Equal(plain, plainExpressions(plain)) {
			t.Fatalf("%x is not in its plain form", plain)
		}
		if masked := maskCounters(data); !bytes.Equal(masked, maskCounters(masked)) {
			t.Fatalf("%x is not masked", masked)
		}
		all, err := attributes(data)
		if err != nil {
			return
		}
		again, err := attributes(all.bytes())
		if err != nil || !bytes.Equal(again.bytes(), all.bytes()) {
			t.Fatalf("%x was written as %x (%v)", data, all.bytes(), err)
		}
	})
}
