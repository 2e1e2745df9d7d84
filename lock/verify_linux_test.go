package lock

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// What was recorded at ADD is what is compared, as JSON from disk, by a release with other rules: an upgrade is no tampering (N19).
func TestVerifyOutlivesLeasesTrafficAndStorage(t *testing.T) {
	p, record := lockedPod(t)
	data, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := ParseRecord(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.FirstLease(Lease); err != nil {
		t.Fatal(err)
	}
	r := &run{pod: p}
	p.do(func() {
		r.dial(theSidecar, outside4, 443)
		r.dial(workload, outside4, 443)
	})
	if err := errors.Join(p.Renew(Lease), p.Verify(stored)); err != nil {
		t.Error(err)
	}
	p.expire()
	if err := p.Verify(stored); err != nil {
		t.Errorf("after the lease: %v", err)
	}
	if err := errors.Join(p.Cut("a test"), p.Verify(stored)); err != nil {
		t.Errorf("after the cut: %v", err)
	}
	if got := stored.Chains[0].Rules[0].Text; got != `iif "lo" accept` {
		t.Errorf("the first rule is recorded as %q", got)
	}
}

// Whatever was changed, Verify says so, and where. (I1)
func TestVerifyNamesWhatWasTamperedWith(t *testing.T) {
	t4 := table()
	chainOf := func(name string) *nftables.Chain { return &nftables.Chain{Name: name, Table: t4} }
	accepting := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	for _, test := range []struct {
		want   string
		tamper func(*testing.T, *pod)
	}{
		{"chain lock_out: rule 12 was added", func(_ *testing.T, p *pod) {
			p.nft.AddRule(&nftables.Rule{Table: t4, Chain: chainOf("lock_out"), Exprs: accepting})
		}},
		{`chain lock_out: rule 1 is not (oif "lo" accept)`, func(_ *testing.T, p *pod) {
			p.nft.InsertRule(&nftables.Rule{Table: t4, Chain: chainOf("lock_out"), Exprs: accepting})
		}},
		{`chain cut_in: rule 1 (iif "lo" accept) is missing`, func(_ *testing.T, p *pod) { p.nft.FlushChain(chainOf("cut_in")) }},
		{"chain lock_fwd: another type, hook, priority, policy", func(_ *testing.T, p *pod) {
			policy := nftables.ChainPolicyAccept
			c := chain{"lock_fwd", "forward", filter, accept, nil}.netlink(t4)
			c.Policy = &policy
			p.nft.AddChain(c)
		}},
		{"chain more was added", func(_ *testing.T, p *pod) { p.nft.AddChain(chainOf("more")) }},
		{"set refused4: element", func(_ *testing.T, p *pod) {
			s := &nftables.Set{Table: t4, Name: "refused4", KeyType: nftables.TypeIPAddr, Interval: true}
			must(p.nft.SetDeleteElements(s, []nftables.SetElement{{Key: []byte{10, 0, 0, 0}}, {Key: []byte{11, 0, 0, 0}, IntervalEnd: true}}))
		}},
		{"set resolvers4: has 2 elements, not 1", func(_ *testing.T, p *pod) {
			s := &nftables.Set{Table: t4, Name: "resolvers4", KeyType: nftables.TypeIPAddr}
			must(p.nft.SetAddElements(s, []nftables.SetElement{{Key: []byte{1, 1, 1, 1}}}))
		}},
		{"set more was added", func(_ *testing.T, p *pod) {
			must(p.nft.AddSet(&nftables.Set{Table: t4, ID: 99, Name: "more", KeyType: nftables.TypeIPAddr}, nil))
		}},
		{"object more type 1 was added", func(_ *testing.T, p *pod) {
			p.nft.AddObj(&nftables.NamedObj{Table: t4, Name: "more", Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
		}},
		{"holds no lock", func(_ *testing.T, p *pod) { p.nft.DelTable(t4) }},
		// A byteorder before the comparison, of the owner, is read back as the genuine rule by the library.
		{"chain sidecar: rule 1 is not (ip daddr", func(t *testing.T, p *pod) { p.replaceFirst(t, "sidecar", "expressions in between") }},
		{"chain sidecar: rule 1 is not (ip daddr", func(t *testing.T, p *pod) { p.replaceFirst(t, "sidecar", "another register") }},
	} {
		p, record := lockedPod(t)
		if err := p.FirstLease(Lease); err != nil {
			t.Fatal(err)
		}
		before, beforeErr := p.Changed()
		must(p.begin())
		test.tamper(t, p)
		must(p.end("tamper", p.nft.Flush()))
		if after, err := p.Changed(); before || !after || errors.Join(beforeErr, err) != nil {
			t.Errorf("%s: changed %v before, %v after (%v, %v)", test.want, before, after, beforeErr, err)
		}
		err := p.Verify(record)
		if !errors.Is(err, ErrDiffers) && !errors.Is(err, ErrNotLocked) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

// replaceFirst puts another rule in the place of the chain's first, which does nearly the same.
func (p *pod) replaceFirst(t *testing.T, name, how string) {
	t.Helper()
	c := &nftables.Chain{Name: name, Table: table()}
	rules, err := p.nft.GetRules(table(), c)
	if err != nil {
		t.Fatal(err)
	}
	built, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(built.chains, func(c chain) bool { return c.name == name })
	exprs, err := built.chains[i].rules[0].netlink()
	if err != nil {
		t.Fatal(err)
	}
	if how == "another register" {
		for _, e := range exprs[2:4] {
			switch e := e.(type) {
			case *expr.Payload:
				e.DestRegister = 2
			case *expr.Lookup:
				e.SourceRegister = 2
			}
		}
	} else {
		between := &expr.Byteorder{SourceRegister: register, DestRegister: register, Op: expr.ByteorderHton, Len: 4, Size: 4}
		exprs = slices.Insert(exprs, 3, expr.Any(between))
	}
	p.nft.AddRule(&nftables.Rule{Table: table(), Chain: c, Handle: rules[0].Handle, Exprs: exprs})
}

// What this Namespace did itself is no change; what another did is, were it undone at once. (I1)
func TestChangedKnowsOwnTransactions(t *testing.T) {
	p, record := lockedPod(t)
	want := func(when string, want bool) {
		t.Helper()
		if got, err := p.Changed(); err != nil || got != want {
			t.Errorf("%s: changed %v (%v), want %v", when, got, err, want)
		}
	}
	want("after the lock", false)
	if err := errors.Join(p.FirstLease(Lease), p.Renew(Lease), p.Renew(Lease)); err != nil {
		t.Fatal(err)
	}
	if err := p.FirstLease(Lease); !errors.Is(err, ErrTicketUsed) {
		t.Fatal(err)
	}
	want("after renewals and a failed transaction", false)
	other, err := Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if changed, err := other.Changed(); err != nil || !changed {
		t.Errorf("who has read nothing knows nothing: %v, %v", changed, err)
	}
	for range 2 {
		if err := other.Renew(Lease); err != nil {
			t.Fatal(err)
		}
		want("after another's transaction", true)
		if err := p.Verify(record); err != nil {
			t.Fatal(err)
		}
		want("after Verify", false)
	}
}

// A lease that somebody added without an end is none that was lent. (N13)
func TestALeaseWithoutAnEnd(t *testing.T) {
	p, _ := lockedPod(t)
	must(p.begin())
	s := aliveSet(table())
	s.KeyType = nftables.TypeNFProto
	must(p.end("tamper", errors.Join(p.nft.SetAddElements(s, []nftables.SetElement{{Key: familyIPv4.first}, {Key: familyIPv6.first}}), p.nft.Flush())))
	if left, err := p.Remaining(); !errors.Is(err, ErrDiffers) {
		t.Errorf("%v are left (%v), want ErrDiffers", left, err)
	}
}

// A dormant table is there to be read, and does nothing. (I1)
func TestVerifySeesADormantTable(t *testing.T) {
	p, record := lockedPod(t)
	must(p.begin())
	must(p.end("tamper", p.makeDormant()))
	if err := p.Verify(record); !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), "table flags are 1, not 0") {
		t.Errorf("got %v", err)
	}
}

// makeDormant sends what the library can't: it ignores a table's flags.
func (p *pod) makeDormant() error {
	_, err := p.commit([]message{about(unix.NFT_MSG_NEWTABLE, 0, name(unix.NFTA_TABLE_NAME, Table), number(unix.NFTA_TABLE_FLAGS, 1))}, 0)
	return err
}
