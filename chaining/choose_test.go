package chaining_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

func TestChooseSaysWhichStrategyAndWhy_C5_C7(t *testing.T) {
	const dropinWhy = "the runtime appends the files of the network's drop-in directory to the list, and nobody else writes there"
	for name, c := range map[string]struct {
		facts chaining.Facts
		want  chaining.Choice
	}{
		"Cilium reads the ConfigMap, whatever else there is": {
			chaining.Facts{ConfigMapUsed: true, Dropins: true, Removals: 9},
			chaining.Choice{Strategy: chaining.ByCilium, Why: "Cilium reads Holdfast's ConfigMap and writes the list itself"},
		},
		"a current runtime": {chaining.Facts{Dropins: true, Removals: 9}, chaining.Choice{Strategy: chaining.ByDropin, Why: dropinWhy}},
		"an older runtime":  {chaining.Facts{}, chaining.Choice{Strategy: chaining.ByList, Why: "the runtime reads no drop-ins"}},
		"a list that takes none": {
			chaining.Facts{Dropins: true, NoDropins: "10-a.conf is no .conflist"}, chaining.Choice{Strategy: chaining.ByList, Why: "10-a.conf is no .conflist"},
		},
		"two removals are borne": {chaining.Facts{Removals: 2}, chaining.Choice{Strategy: chaining.ByList, Why: "the runtime reads no drop-ins"}},
		"three are not": {
			chaining.Facts{Removals: 3},
			chaining.Choice{Strategy: chaining.ByList, Why: "the runtime reads no drop-ins; the list was removed 3 times in ten minutes", Refused: chaining.StrategyRefused},
		},
		"forced cilium": {
			chaining.Facts{Forced: chaining.ByCilium, Dropins: true},
			chaining.Choice{Strategy: chaining.ByCilium, Why: "chain.strategy says cilium", Refused: chaining.CiliumConfigMapNotUsed},
		},
		"forced drop-in, old runtime": {
			chaining.Facts{Forced: chaining.ByDropin},
			chaining.Choice{Strategy: chaining.ByDropin, Why: "chain.strategy says drop-in, but the runtime reads no drop-ins", Refused: chaining.StrategyRefused},
		},
		"forced list": {chaining.Facts{Forced: chaining.ByList, Dropins: true, ConfigMapUsed: true}, chaining.Choice{Strategy: chaining.ByList, Why: "chain.strategy says list"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, chaining.Choose(c.facts)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEveryReasonHasOneMeaningAndOneFix_N3(t *testing.T) {
	if chaining.Chained.Means() != "" || chaining.Chained.Fix() != "" {
		t.Error("Chained has nothing to repair")
	}
	said := map[string]chaining.Reason{}
	for _, r := range chaining.Reasons() {
		for _, text := range []string{r.Means(), r.Fix()} {
			if other, found := said[text]; found || text == "" || text[len(text)-1] == '.' {
				t.Errorf("%s: %q (also %s)", r, text, other)
			}
			said[text] = r
		}
	}
	if len(chaining.Reasons()) != 14 {
		t.Errorf("%d reasons", len(chaining.Reasons()))
	}
}
