package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRewriteTakesAwayWhatIsNotGrantedAndKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	const before = `{"ociVersion":"1.2.0","linux":{"resources":{"memory":{"limit":9223372036854771712}}},"process":{
		"capabilities":{"bounding":["CAP_KILL","CAP_SYS_RESOURCE"],"effective":["CAP_SYS_RESOURCE"]},
		"oomScoreAdj":-998,"rlimits":[{"type":"RLIMIT_NOFILE","hard":1048576,"soft":1048576}],"args":["/sbin/init"]}}`
	const after = `{"linux":{"resources":{"memory":{"limit":9223372036854771712}}},"ociVersion":"1.2.0","process":{` +
		`"args":["/sbin/init"],"capabilities":{"bounding":["CAP_KILL"],"effective":[]},"oomScoreAdj":0}}`
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(path, "process"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, string(got)); diff != "" {
		t.Errorf("config.json (-want +got):\n%s", diff)
	}
}

func TestRestrictKeepsAPositiveScore(t *testing.T) {
	process := map[string]any{"oomScoreAdj": json.Number("1000")}
	restrict(process)
	if process["oomScoreAdj"] != json.Number("1000") {
		t.Errorf("oomScoreAdj = %v", process["oomScoreAdj"])
	}
	restrict(nil) // a configuration without a process is runc's to refuse
}

func TestFlagReadsBothSpellings(t *testing.T) {
	for _, args := range [][]string{
		{"--root", "/r", "create", "--bundle", "/b", "id"},
		{"create", "--bundle=/b", "id"},
		{"create", "-b", "/b", "id"},
	} {
		if got := flag(args, "--bundle", "-b"); got != "/b" {
			t.Errorf("flag(%q) = %q", args, got)
		}
	}
	if got := flag([]string{"exec", "--bundle"}, "--bundle"); got != "" {
		t.Errorf("a flag without a value = %q", got)
	}
}
