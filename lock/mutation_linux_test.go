package lock

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// mutant is the rule set with one thing wrong.
type mutant struct {
	name  string
	rules Rules
}

// secondGuards are mutants that let nothing through and keep nothing out, because something else stands behind: they are named
// here with what that is, and must survive, so that the list stays true.
var secondGuards = map[string]string{
	"lock_out rule 2 (ct mark 2 ct state established ct direction reply accept): ct state established,new for ct state established": "a reply is never new",
	"lock_out rule 2 (ct mark 2 ct state established ct direction reply accept): without ct direction reply":                        "the other direction of a call from outside goes to the pod itself, by lo",

	"lock_out rule 3 (meta skuid != 64128 meta l4proto tcp counter name other_uid reject with tcp reset): without meta l4proto tcp": "what is not TCP is dropped without a reset",

	"lock_out rule 6 (ct mark 1 ct state established tcp flags ! syn accept): without ct state established":                                "a new packet of a flow with the sidecar's mark is the sidecar's, sent again",
	"lock_out rule 6 (ct mark 1 ct state established tcp flags ! syn accept): ct state established,new for ct state established":           "the same",
	"lock_out rule 6 (ct mark 1 ct state established tcp flags ! syn accept): without tcp flags ! syn":                                     "its own test shows it, TestNobodyBeginsAgainWhereTheSidecarWas",
	"lock_in rule 2 (ct mark != 0 ct state established,related accept): without ct state established,related":                              "a new packet of a marked flow is its first, sent again",
	"lock_in rule 2 (ct mark != 0 ct state established,related accept): ct state established,related,new for ct state established,related": "the same",

	"lock_out rule 9 (ct mark != 0 ct direction reply meta skuid 64128 ct mark set 1 accept): without ct direction reply":            "where a flow of the sidecar's goes was judged when it began",
	"lock_out rule 9 (ct mark != 0 ct direction reply meta skuid 64128 ct mark set 1 accept): meta skgid 64128 for meta skuid 64128": "whoever has only one of the two was refused before",
	"lock_out rule 10 (meta skuid 64128 ct direction original goto sidecar): meta skgid 64128 for meta skuid 64128":                  "the same",

	"sidecar rule 1 (ip daddr @resolvers4 udp dport 53 ct mark set 1 accept): ct mark set 2 for ct mark set 1":  "no packet of a UDP flow lacks its socket, and answers and errors come in by any mark",
	"sidecar rule 1 (ip daddr @resolvers4 udp dport 53 ct mark set 1 accept): ct mark set 3 for ct mark set 1":  "the same",
	"sidecar rule 3 (ip6 daddr @resolvers6 udp dport 53 ct mark set 1 accept): ct mark set 2 for ct mark set 1": "the same",
	"sidecar rule 3 (ip6 daddr @resolvers6 udp dport 53 ct mark set 1 accept): ct mark set 3 for ct mark set 1": "the same",

	"sidecar rule 10 (counter name refused drop): without drop": "the policy drops what reaches the end",
}

// TestMutants breaks the rules in every way it knows, one at a time, and sends the packets of TestPackets: at least one has to tell. (I1, N13)
func TestMutants(t *testing.T) {
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	all, todo := mutants(rules), make(chan mutant)
	var killed, guards, refused int
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range 3 {
		p := newPod(t)
		workers.Go(func() {
			for m := range todo {
				wrong := p.through(&m.rules, probes(), true)
				mu.Lock()
				guard := secondGuards[m.name] != ""
				switch {
				case len(wrong) > 0 && errors.Is(wrong[0], errNoRules):
					refused++
				case len(wrong) > 0 && !guard:
					killed++
				case len(wrong) > 0:
					t.Errorf("%s: is listed as a second guard, but is found: %v", m.name, wrong[0])
				case guard:
					guards++
				default:
					t.Errorf("survived: %s", m.name)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		todo <- m
	}
	close(todo)
	workers.Wait()
	t.Logf("mutants killed: %d of %d; besides, %d are no rules that the kernel takes, and %d take away a second guard (each named, with the first)",
		killed, len(all)-guards-refused, refused, guards)
}

func mutants(rules Rules) []mutant {
	out := slices.Concat(chainMutants(rules), orderMutants(rules), setMutants(rules))
	for i, c := range rules.chains {
		for j, ru := range c.rules {
			at := fmt.Sprintf("%s rule %d (%s)", c.name, j+1, ru.text())
			out = append(out, mutant{at + ": removed", rules.withRules(i, slices.Delete(slices.Clone(c.rules), j, j+1))})
			for k, s := range ru {
				if len(ru) > 1 {
					out = append(out, mutant{at + ": without " + s.text(), rules.withRule(i, j, slices.Delete(slices.Clone(ru), k, k+1))})
				}
				for _, other := range others(s) {
					changed := slices.Clone(ru)
					changed[k] = other
					out = append(out, mutant{at + ": " + other.text() + " for " + s.text(), rules.withRule(i, j, changed)})
				}
			}
		}
	}
	return out
}

// others are what could stand in the place of the statement by mistake.
func others(s statement) []statement {
	switch s := s.(type) {
	case loopback:
		return []statement{loopback{!s.out}}
	case owner:
		return []statement{owner{!s.group, s.not, s.id}, owner{s.group, !s.not, s.id}, owner{s.group, s.not, 0}, owner{s.group, s.not, 1000}}
	case protocol:
		return []statement{tcp + udp - s}
	case icmp6:
		return []statement{icmp6(128)}
	case to:
		return []statement{to{s.v6, swap(s.set, s.v6)}}
	case port:
		return []statement{port{s.protocol, s.port + 1}, port{tcp + udp - s.protocol, s.port}}
	case state:
		if s == fresh {
			return []statement{established, fresh | established}
		}
		return []statement{fresh, s | fresh}
	case direction:
		return []statement{original + reply - s}
	case marked:
		return []statement{mark(ofSidecar), mark(ofIngress), mark(ofHealth)}
	case mark:
		return slices.DeleteFunc([]statement{mark(0), mark(ofSidecar), mark(ofIngress), mark(ofHealth)}, func(other statement) bool { return other == s })
	case setMark:
		return slices.DeleteFunc([]statement{setMark(0), setMark(ofSidecar), setMark(ofIngress), setMark(ofHealth)}, func(other statement) bool { return other == s })
	case verdict:
		return []statement{map[verdict]verdict{accept: drop, drop: accept}[s]}
	case goTo:
		return []statement{accept, drop}
	case leased:
		return []statement{leased{setTicket}}
	}
	return nil
}

func swap(set string, v6 bool) string {
	family := map[bool]string{false: "4", true: "6"}[v6]
	return map[string]string{"resolvers": "allowed", "allowed": "refused", "refused": "allowed"}[set[:len(set)-1]] + family
}

func chainMutants(rules Rules) []mutant {
	var out []mutant
	for i, c := range rules.chains {
		if c.hook == "" {
			continue
		}
		without := rules
		without.chains = slices.Delete(slices.Clone(rules.chains), i, i+1)
		out = append(out, mutant{c.name + ": removed", without},
			mutant{c.name + ": policy accept", rules.withChain(i, chain{c.name, c.hook, c.priority, accept, c.rules})})
		for _, hook := range []string{"prerouting", "input", "forward", "output", "postrouting"} {
			if hook != c.hook {
				out = append(out, mutant{c.name + ": at hook " + hook, rules.withChain(i, chain{c.name, hook, c.priority, c.policy, c.rules})})
			}
		}
	}
	return out
}

// orderMutants are the orders that were tried and had a hole, and each rule of the filter chains after its next.
func orderMutants(rules Rules) []mutant {
	i := slices.IndexFunc(rules.chains, func(c chain) bool { return c.name == "lock_out" })
	old := rules.chains[i].rules
	at := func(first statement) int { return slices.IndexFunc(old, func(r rule) bool { return r[0] == first }) }
	user := at(owner{not: true, id: SidecarUID})
	var out []mutant
	for _, s := range []statement{mark(ofSidecar), marked{}, neighbourSolicit, neighbourAdvert, owner{id: SidecarUID}} {
		moved := old[at(s)]
		order := slices.Insert(slices.Delete(slices.Clone(old), at(s), at(s)+1), user, moved)
		out = append(out, mutant{"lock_out: " + moved.text() + ": before the refusal of other users", rules.withRules(i, order)})
	}
	// "TCP to the rest" before the refused ranges.
	i = slices.IndexFunc(rules.chains, func(c chain) bool { return c.name == "sidecar" })
	rest := slices.IndexFunc(rules.chains[i].rules, func(r rule) bool { return r[0] == tcp })
	order := slices.Delete(slices.Clone(rules.chains[i].rules), rest, rest+1)
	return append(out, mutant{"sidecar: the rest before the refused", rules.withRules(i, slices.Insert(order, 0, rules.chains[i].rules[rest]))})
}
