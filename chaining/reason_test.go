package chaining_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

const reasonsDoc = "../docs/reasons.md"

// Every reason is explained, and the document says what is so.
func TestReasonsDocIsUpToDate(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Why a node is closed\n\n<!-- Made from chaining/reason.go by make generate. -->\n\n" +
		"While a node's chain is not confirmed, its condition `HoldfastChained` is False with one of these reasons, and the node has the taint\n" +
		"`holdfast.dev/unchained:NoSchedule` and the label `holdfast.dev/node=false`. The condition's message says where, and the fix;\n" +
		"`holdfast doctor` says the same of a node, and the metric `holdfast_node_reason` of all.\n\n" +
		"| reason | what is wrong | fix |\n|---|---|---|\n")
	for _, r := range chaining.Reasons() {
		if r.Means() == "" || r.Fix() == "" {
			t.Errorf("%s: not explained", r)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r, r.Means(), r.Fix())
	}
	if *update {
		if err := os.WriteFile(reasonsDoc, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(reasonsDoc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(have)); diff != "" {
		t.Errorf("make generate: %s", diff)
	}
}
