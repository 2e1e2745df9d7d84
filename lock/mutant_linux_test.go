package lock

import (
	"fmt"
	"net/netip"
	"slices"
)

func (r Rules) withChain(i int, c chain) Rules {
	r.chains = slices.Clone(r.chains)
	r.chains[i] = c
	return r
}

func (r Rules) withRules(i int, rules []rule) Rules {
	c := r.chains[i]
	c.rules = rules
	return r.withChain(i, c)
}

func (r Rules) withRule(i, j int, changed rule) Rules {
	rules := slices.Clone(r.chains[i].rules)
	rules[j] = changed
	return r.withRules(i, rules)
}

func (r Rules) withElements(i int, elements []element) Rules {
	r.sets = slices.Clone(r.sets)
	r.sets[i].elements = elements
	return r
}

// sameAddresses compares two sorted lists of ranges by what they hold.
func sameAddresses(a, b []element) bool {
	joined := func(elements []element) []string {
		var out []string
		for _, e := range elements {
			if n := len(out); n > 0 && out[n-1] == string(e.first) {
				out = out[:n-1]
			} else {
				out = append(out, string(e.first))
			}
			out = append(out, string(e.end))
		}
		return out
	}
	return slices.Equal(joined(a), joined(b))
}

func setMutants(rules Rules) []mutant {
	var out []mutant
	for i, s := range rules.sets {
		for j, e := range s.elements {
			out = append(out, mutant{fmt.Sprintf("set %s: without %s", s.name, e.text), rules.withElements(i, slices.Delete(slices.Clone(s.elements), j, j+1))})
			if !s.interval {
				continue
			}
			var ranges []netip.Prefix
			for _, e := range s.elements {
				ranges = append(ranges, netip.MustParsePrefix(e.text))
			}
			for _, bits := range []int{ranges[j].Bits() - 1, ranges[j].Bits() + 1} {
				if bits > 0 && bits <= ranges[j].Addr().BitLen() {
					changed := slices.Clone(ranges)
					changed[j] = netip.PrefixFrom(ranges[j].Addr(), bits).Masked()
					if sameAddresses(intervals(changed), s.elements) {
						continue // two neighbours, and their whole
					}
					out = append(out, mutant{fmt.Sprintf("set %s: %s for %s", s.name, changed[j], ranges[j]), rules.withElements(i, intervals(changed))})
				}
			}
		}
	}
	i := slices.IndexFunc(rules.sets, func(s set) bool { return s.name == setAlive })
	lasting := rules.sets[i]
	lasting.elements = []element{familyIPv4, familyIPv6}
	rules.sets = slices.Clone(rules.sets)
	rules.sets[i] = lasting
	return append(out, mutant{"set alive: filled from the beginning", rules})
}
