package lock

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Text is the canonical form. It reads like what `nft list table inet holdfast` shows in the pod, without what passes (timers, counted
// packets), and nft -f makes of it the very expressions that Apply sends.
func (r Rules) Text() string {
	var b strings.Builder
	b.Grow(8 << 10)
	fmt.Fprintf(&b, "table inet %s {\n", Table)
	for _, s := range r.sets {
		s.write(&b)
	}
	for _, name := range r.counters {
		fmt.Fprintf(&b, "  counter %s { }\n", name)
	}
	for _, c := range r.chains {
		c.write(&b)
	}
	b.WriteString("}\n")
	return b.String()
}

// Digest is the SHA-256 of Text in hexadecimal, 64 digits.
func (r Rules) Digest() string {
	sum := sha256.Sum256([]byte(r.Text()))
	return hex.EncodeToString(sum[:])
}

func (s set) write(b *strings.Builder) {
	fmt.Fprintf(b, "  set %s {\n    type %s\n", s.name, s.kind)
	if s.interval {
		b.WriteString("    flags interval\n")
	}
	if s.timeout {
		b.WriteString("    flags timeout\n")
	}
	if len(s.elements) > 0 {
		texts := make([]string, len(s.elements))
		for i, e := range s.elements {
			texts[i] = e.text
		}
		fmt.Fprintf(b, "    elements = { %s }\n", strings.Join(texts, ", "))
	}
	b.WriteString("  }\n")
}

func (c chain) write(b *strings.Builder) {
	fmt.Fprintf(b, "  chain %s {\n", c.name)
	if c.hook != "" {
		fmt.Fprintf(b, "    type filter hook %s priority %d; policy %s;\n", c.hook, c.priority, c.policy)
	}
	for _, r := range c.rules {
		b.WriteString("    " + r.text() + "\n")
	}
	b.WriteString("  }\n")
}

func (r rule) text() string {
	texts := make([]string, len(r))
	for i, s := range r {
		texts[i] = s.text()
	}
	return strings.Join(texts, " ")
}
