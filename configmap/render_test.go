package configmap

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

var update = flag.Bool("update", false, "rewrite golden files")

const plugin = `{
  "type": "holdfast-cni",
  "capabilities": {"io.kubernetes.cri.pod-annotations": true},
  "resolvers": ["10.96.0.10"]
}`

// eniList is an AWS installation's, with fields that only the agent understands, spacing and numbers that must survive.
const eniList = `{
  "cniVersion":"0.3.1",
  "name":"cilium",
  "plugins":[
    {
      "type":"cilium-cni",
      "mtu": 9001,
      "eni":{"first-interface-index":1,  "security-group-tags":{"a":"b"}},
      "log-file": "/var/log/x.log",
      "enable-debug": true
    }
  ]
}`

func parse(t testing.TB, text string) chaining.List {
	t.Helper()
	list, err := chaining.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func entry(t testing.TB, text string) *chaining.Entry {
	t.Helper()
	e, err := chaining.ParseEntry([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &e
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func settingsOf(pairs ...string) Settings {
	c := cilium(pairs...)
	return c.Groups(DefaultSources(c.Namespace))[0].Settings
}

// C1, C3: the list is Cilium's part, then exactly plugin.json.
func TestRenderGolden(t *testing.T) {
	eni := parse(t, eniList)
	withOurs, err := Render(Settings{}, &eni, entry(t, `{"type":"holdfast-cni","old":1}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		settings Settings
		existing *chaining.List
		plugin   *chaining.Entry
	}{
		"defaults":            {settingsOf(), nil, entry(t, plugin)},
		"debug-and-log":       {settingsOf(KeyDebug, "true", KeyLogFile, `/a"b\c<é>`), nil, entry(t, plugin)},
		"no-log":              {settingsOf(KeyLogFile, ""), nil, entry(t, plugin)},
		"portmap":             {settingsOf(KeyChainingMode, "portmap"), nil, entry(t, plugin)},
		"flannel":             {settingsOf(KeyChainingMode, "flannel"), nil, entry(t, plugin)},
		"eni":                 {settingsOf(KeyDebug, "false"), &eni, entry(t, plugin)},
		"eni-plugin-replaced": {settingsOf(), &withOurs, entry(t, plugin)},
		"cilium-alone":        {settingsOf(), nil, nil},
		"another-vendor":      {settingsOf(), nil, entry(t, `{"type": "istio-cni",  "log_level": "info"}`)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			list, err := Render(test.settings, test.existing, test.plugin)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "render", name+".conflist")
			if *update {
				writeFile(t, path, list.Bytes())
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(list.Bytes())); diff != "" {
				t.Error(diff)
			}
			if test.plugin != nil && !strings.Contains(string(list.Bytes()), string(test.plugin.Bytes())) {
				t.Error("plugin.json is not in the list byte for byte")
			}
			if test.plugin != nil {
				if diffs := Compare(test.settings, list, *test.plugin); len(diffs) > 0 {
					t.Errorf("Compare finds %v in what Render made", diffs)
				}
			}
		})
	}
}

func TestRenderRefusesWhatItCannotKnow(t *testing.T) {
	without := parse(t, `{"cniVersion":"1.0.0","name":"x","plugins":[{"type":"ptp"}]}`)
	tests := map[string]struct {
		settings Settings
		existing *chaining.List
		plugin   string
		want     error
	}{
		"a chaining target":                      {settingsOf(KeyChainingTarget, "k8s-pod-network"), nil, plugin, ErrListMissing},
		"aws-cni implies a target":               {settingsOf(KeyChainingMode, "aws-cni"), nil, plugin, ErrListMissing},
		"generic-veth":                           {settingsOf(KeyChainingMode, "generic-veth"), nil, plugin, ErrListMissing},
		"a mode Cilium does not know":            {settingsOf(KeyChainingMode, "x"), nil, plugin, ErrModeUnknown},
		"a list without Cilium":                  {settingsOf(), &without, plugin, ErrNoCilium},
		"a list over the size that a map holds":  {settingsOf(), nil, `{"type":"x","a":"` + strings.Repeat("x", MaxList) + `"}`, chaining.ErrTooLarge},
		"a plugin that takes Cilium's own place": {settingsOf(), nil, `{"type":"cilium-cni"}`, chaining.ErrNoPlugins},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Render(test.settings, test.existing, entry(t, test.plugin)); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// C2: each difference names its path, what is wanted and what is there.
func TestCompareNamesEachDifference(t *testing.T) {
	list := parse(t, `{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"ptp"},{"type":"cilium-cni"},
		{"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.0.0.10"]}]}`)
	got := Compare(settingsOf(), list, *entry(t, plugin))
	want := []chaining.Difference{
		{Path: "name", Want: `"cilium"`, Have: `"mine"`},
		{Path: "plugins[0].type", Want: `"cilium-cni"`, Have: `"ptp"`},
		{Path: "plugins[2].resolvers[0]", Want: `"10.96.0.10"`, Have: `"10.0.0.10"`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Compare(settingsOf(KeyChainingMode, "generic-veth"), list, *entry(t, plugin)); len(got) != 1 {
		t.Errorf("a chaining mode's name and order count: %v", got)
	}
}

func BenchmarkRender(b *testing.B) {
	existing, e, s := parse(b, eniList), entry(b, plugin), settingsOf()
	for b.Loop() {
		if _, err := Render(s, &existing, e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	existing, e, s := parse(b, eniList), entry(b, plugin), settingsOf()
	list, err := Render(s, &existing, e)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if diffs := Compare(s, list, *e); len(diffs) > 0 {
			b.Fatal(diffs)
		}
	}
}
