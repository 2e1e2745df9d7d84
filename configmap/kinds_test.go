package configmap

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const findingsDoc = "../docs/findings.md"

// Every kind of finding is explained, and the document says what is so.
func TestFindingsDocIsUpToDate(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Findings\n\n<!-- Made from configmap/kinds.go by make generate. -->\n\n" +
		"`holdfast render` prints them, `holdfast watch` reports them as Events, log lines, the metric `holdfast_finding` and in the\n" +
		"ConfigMap `<release>-holdfast-status`. Each comes with its fix: what to set, and the command. The last column names the\nbehaviour it delivers.\n\n" +
		"| id | at worst | what it means | |\n|---|---|---|---|\n")
	for _, k := range Kinds {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.ID, k.Worst, k.Means, k.Behaviour)
	}
	if *update {
		writeFile(t, findingsDoc, []byte(b.String()))
	}
	have, err := os.ReadFile(findingsDoc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(have)); diff != "" {
		t.Errorf("make generate: %s", diff)
	}
}

func TestKindsListsEveryID(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "finding.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[ID]bool{}
	for _, k := range Kinds {
		known[k.ID] = true
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "ID" {
			return true
		}
		id, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || !known[ID(id)] {
			t.Errorf("Kinds lacks %s", id)
		}
		delete(known, ID(id))
		return true
	})
	for id := range known {
		t.Errorf("Kinds has %s, which finding.go lacks", id)
	}
}
