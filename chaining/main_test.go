package chaining_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/holdfast-cni/holdfast/chaining"
)

var update = flag.Bool("update", false, "write the golden files again")

// ours is the entry most tests chain.
const ours = `{"type": "holdfast-cni", "resolvers": ["10.96.0.10"], "ingress": {"ports": [8080, 9090]}}`

// listOf makes a list of entries, for tests that are not about its other keys.
func listOf(t testing.TB, entries ...string) chaining.List {
	t.Helper()
	return mustParse(t, `{"cniVersion": "1.0.0", "name": "pods", "plugins": [`+strings.Join(entries, ", ")+`]}`)
}

func mustParse(t testing.TB, text string) chaining.List {
	t.Helper()
	list, err := chaining.Parse([]byte(text))
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return list
}

func mustEntry(t testing.TB, text string) chaining.Entry {
	t.Helper()
	entry, err := chaining.ParseEntry([]byte(text))
	if err != nil {
		t.Fatalf("parse entry %s: %v", text, err)
	}
	return entry
}

func types(list chaining.List) []string {
	var all []string
	for _, plugin := range list.Plugins() {
		all = append(all, plugin.Type())
	}
	return all
}
