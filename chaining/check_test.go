package chaining_test

import (
	"encoding/json"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

func TestCheckGivesTheFirstReasonAndWhatToChange_C2(t *testing.T) {
	const (
		ptp, portmap = `{"type": "ptp"}`, `{"type": "portmap"}`
		other        = `{"type": "holdfast-cni", "resolvers": ["10.96.0.11"], "ingress": {"ports": [8080]}}`
		brief        = `{"type":"holdfast-cni","resolvers":["10.96.0.11"],"ingress":…`
	)
	for name, c := range map[string]struct {
		list []string
		want chaining.Verdict
	}{
		"once, equal, last": {[]string{ptp, ours}, chaining.Verdict{Reason: chaining.Chained}},
		"alone":             {[]string{ours}, chaining.Verdict{Reason: chaining.Chained}},
		"equal, written otherwise": {
			[]string{ptp, `{"ingress":{"ports":[8.08e3,9090.0]},"resolvers":["\u00310.96.0.10"],"type":"holdfast-cni"}`},
			chaining.Verdict{Reason: chaining.Chained},
		},
		"missing": {[]string{ptp, portmap}, chaining.Verdict{
			Reason:      chaining.EntryMissing,
			Differences: differences{{"plugins[2]", `{"type":"holdfast-cni","resolvers":["10.96.0.10"],"ingress":…`, ""}},
		}},
		"duplicated before differing": {[]string{other, ptp, other, portmap}, chaining.Verdict{
			Reason: chaining.EntryDuplicated, Differences: differences{{"plugins[0]", "", brief}},
		}},
		"differing before not last": {[]string{ptp, other, portmap}, chaining.Verdict{
			Reason: chaining.EntryDiffers,
			Differences: differences{
				{"plugins[1].resolvers[0]", `"10.96.0.10"`, `"10.96.0.11"`}, {"plugins[1].ingress.ports[1]", "9090", ""},
			},
		}},
		"not last": {[]string{ours, ptp, portmap}, chaining.Verdict{
			Reason:      chaining.EntryNotLast,
			Differences: differences{{"plugins[1]", "", `{"type":"ptp"}`}, {"plugins[2]", "", `{"type":"portmap"}`}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, chaining.Check(listOf(t, c.list...), mustEntry(t, ours))); diff != "" {
				t.Errorf("(-want +have)\n%s", diff)
			}
		})
	}
}

func TestCheckFailsClosedOnZeroValues(t *testing.T) {
	if have := chaining.Check(chaining.List{}, mustEntry(t, ours)).Reason; have != chaining.ListInvalid {
		t.Errorf("no list: %q", have)
	}
	if have := chaining.Check(listOf(t, ours), chaining.Entry{}).Reason; have != chaining.EntryMissing {
		t.Errorf("no entry: %q", have)
	}
}

func TestCheckAcceptsWhatTheRuntimeMadeOfOurEntry_C1(t *testing.T) {
	entry := mustEntry(t, `{"type": "holdfast-cni", "html": "<&>", "n": [1.0, 9007199254740991, 1e2], "z": {"b": null, "a": []}}`)
	loaded, err := libcni.NetworkConfFromBytes(edited(t)(listOf(t, `{"type": "cilium-cni"}`).Append(entry)).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var plugins []json.RawMessage
	for _, plugin := range loaded.Plugins {
		plugins = append(plugins, plugin.Bytes)
	}
	text, err := json.Marshal(map[string]any{"name": loaded.Name, "cniVersion": loaded.CNIVersion, "plugins": plugins})
	if err != nil {
		t.Fatal(err)
	}
	if have := chaining.Check(mustParse(t, string(text)), entry); have.Reason != chaining.Chained {
		t.Errorf("%s: %v", have.Reason, have.Differences)
	}
}

func TestReasonsAreThoseOfTheCondition(t *testing.T) {
	have := []chaining.Reason{
		chaining.Chained, chaining.ListInvalid, chaining.EntryMissing, chaining.EntryDiffers, chaining.EntryNotLast, chaining.EntryDuplicated,
	}
	want := []chaining.Reason{"", "ListInvalid", "EntryMissing", "EntryDiffers", "EntryNotLast", "EntryDuplicated"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +have)\n%s", diff)
	}
}
