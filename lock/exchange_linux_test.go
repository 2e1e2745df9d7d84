package lock

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What is sent is what the library would send, for every statement that there is.
func TestRulesAreEncodedAsTheLibraryDoes(t *testing.T) {
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range append(mutants(rules), mutant{"the rules", rules}, mutant{"a cut", Rules{chains: cutChains()}}) {
		for _, c := range m.rules.chains {
			for _, r := range c.rules {
				if seen[r.text()] {
					continue
				}
				seen[r.text()] = true
				own, err := list(nil).rule(r)
				if err != nil {
					t.Fatal(err)
				}
				if library := r.byLibrary(t); !bytes.Equal(plainExpressions(own), plainExpressions(library)) {
					t.Fatalf("%s: %s: %q is sent as\n%x, by the library as\n%x", m.name, c.name, r.text(), own, library)
				}
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d rules were compared", len(seen))
	}
	if _, err := list(nil).rule(rule{unknown{}}); err == nil {
		t.Error("a statement of no kind was encoded")
	}
}

type unknown struct{}

func (unknown) text() string { return "unknown" }

func (r rule) byLibrary(t *testing.T) []byte {
	t.Helper()
	exprs, err := r.netlink()
	if err != nil {
		t.Fatal(err)
	}
	var list attrs
	for _, e := range exprs {
		data, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, attr{unix.NFTA_LIST_ELEM, withoutNestedFlags(t, data)})
	}
	return list.bytes()
}

func withoutNestedFlags(t *testing.T, data []byte) []byte {
	t.Helper()
	raw, err := netlink.UnmarshalAttributes(data)
	if err != nil {
		t.Fatal(err)
	}
	var out attrs
	for _, a := range raw {
		if a.Type&unix.NLA_F_NESTED != 0 {
			a.Data = withoutNestedFlags(t, a.Data)
		}
		out = append(out, attr{a.Type &^ unix.NLA_F_NESTED, a.Data})
	}
	return out.bytes()
}

// Only the last message is acknowledged; a fault in any other is reported nevertheless, by its number, and nothing happens at all. (I1)
func TestATransactionFailsWholeWhereverItFails(t *testing.T) {
	p := newPod(t)
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	chains, err := encodedChains(rules.chains)
	if err != nil {
		t.Fatal(err)
	}
	good := rules.messages(chains)
	bad := map[string]message{
		"a rule for a chain that isn't there": about(unix.NFT_MSG_NEWRULE, last, name(unix.NFTA_RULE_TABLE, Table), name(unix.NFTA_RULE_CHAIN, "none"),
			attr{unix.NFTA_RULE_EXPRESSIONS, chains[0].Rules[0].Expressions}),
		"an element that isn't there": deleteElements(setAlive, encodedElements([]element{familyIPv4})),
	}
	for name, broken := range bad {
		for _, at := range []int{1, len(good) / 2, len(good) - 1} {
			for _, echo := range []uint16{0, unix.NLM_F_ECHO} {
				// After the sets and chains, so that it fails for what it is.
				messages := slices.Clone(good)
				messages[at] = broken
				must(p.begin())
				_, err := p.commit(messages, echo)
				err = p.end("try", err)
				var which errMessage
				if !errors.Is(err, unix.ENOENT) || !errors.As(err, &which) || which.at != at {
					t.Errorf("%s as message %d: got %v", name, at, err)
				}
				if _, err := p.Record(); !errors.Is(err, ErrNotLocked) {
					t.Errorf("%s as message %d: afterwards: %v, want ErrNotLocked", name, at, err)
				}
			}
		}
	}
	if _, err := p.Apply(rules); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(rules); !errors.Is(err, ErrLocked) || !errors.Is(err, unix.EEXIST) {
		t.Errorf("a second lock: got %v", err)
	}
}

// What the kernel echoes of the transaction is, byte for byte, what it gives to who reads it. (I1, N15)
func TestTheEchoIsWhatIsRead(t *testing.T) {
	p := newPod(t)
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	chains, err := encodedChains(rules.chains)
	if err != nil {
		t.Fatal(err)
	}
	must(p.begin())
	echoed, err := p.create(rules, chains)
	if err != nil {
		t.Fatal(err)
	}
	record, err := recordOf(echoed)
	if err != nil {
		t.Fatal(err)
	}
	read, err := p.read()
	if err := p.end("read", err); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read, record); diff != "" {
		t.Error(diff)
	}
	meant := rules.meant(chains)
	if !record.holds(meant) {
		t.Error("it is not what was meant")
	}
	// Every mutant is told from what is there, as by the plain forms.
	for _, m := range mutants(rules) {
		chains, err := encodedChains(m.rules.chains)
		if err != nil {
			t.Fatal(err)
		}
		wrong := m.rules.meant(chains)
		same := wrong.plain().difference(record.plain()) == ""
		if record.holds(wrong) != same {
			t.Errorf("%s: holds is %v", m.name, !same)
		}
		if same && !strings.HasPrefix(m.name, "set alive") && !strings.HasPrefix(m.name, "set ticket") {
			t.Errorf("%s: is not told from the rules", m.name) // a record leaves out what those two sets hold
		}
	}
	// Too little, and an echo of something else, are no record.
	if _, err := recordOf(echoed[:len(echoed)-1]); err == nil {
		t.Error("an echo without its end was taken")
	}
	short, err := recordOf(slices.Delete(slices.Clone(echoed), len(echoed)/2, len(echoed)/2+1))
	if err == nil && short.holds(meant) {
		t.Error("an echo that lacks something was taken for all")
	}
}

// The agent that opens a namespace in which nothing was since the plugin read it doesn't read again; and whatever was, it does. (N15)
func TestVerifyReadsNothingTwice(t *testing.T) {
	p, record := lockedPod(t)
	open := func() *Namespace {
		t.Helper()
		n, err := Open(p.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	other := record
	other.Flags = 1 // only who reads can tell
	fresh := open()
	if err := errors.Join(fresh.Verify(other), fresh.FirstLease(Lease)); err != nil {
		t.Fatalf("nothing was since: %v", err)
	}
	if changed, err := fresh.Changed(); changed || err != nil {
		t.Errorf("changed %v (%v)", changed, err)
	}
	if err := open().Verify(other); !errors.Is(err, ErrDiffers) {
		t.Errorf("after a transaction: got %v", err)
	}
	if err := open().Verify(record); err != nil {
		t.Errorf("after a transaction: %v", err)
	}
	now, err := p.Record()
	if err != nil {
		t.Fatal(err)
	}
	now.Flags = 1
	if err := fresh.Verify(now); !errors.Is(err, ErrDiffers) {
		t.Errorf("a Namespace that has done something: got %v", err)
	}
}
