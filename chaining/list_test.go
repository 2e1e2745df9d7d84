package chaining_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

func TestParseReadsWhatARuntimeReads(t *testing.T) {
	type read struct {
		Name, Version string
		Types         []string
		InlinedOnly   bool
	}
	one := []string{"ptp"}
	for name, c := range map[string]struct {
		text string
		want read
	}{
		"the usual": {
			`{"cniVersion": "0.3.1", "name": "k8s-pod-network", "plugins": [{"type": "calico"}, {"type": "portmap"}]}`,
			read{"k8s-pod-network", "0.3.1", []string{"calico", "portmap"}, false},
		},
		"white space and any key order": {
			"\r\n\t {\"plugins\":[{\"x\":0,\"type\":\"ptp\"}],\"name\":\"n\",\"cniVersion\":\"1.1.0\"}\n",
			read{"n", "1.1.0", one, false},
		},
		"no version":    {`{"name": "n", "plugins": [{"type": "ptp"}]}`, read{"n", "", one, false}},
		"empty version": {`{"cniVersion": "", "name": "n", "plugins": [{"type": "ptp"}]}`, read{"n", "", one, false}},
		"a version from the future": {
			`{"cniVersion": "2.0.0", "name": "n", "plugins": [{"type": "ptp"}]}`, read{"n", "2.0.0", one, false},
		},
		"the newest of several known versions": {
			`{"cniVersion": "0.4.0", "cniVersions": ["0.3.1", "1.0.0", "1.2.0", "0.10.0"], "name": "n", "plugins": [{"type": "ptp"}]}`,
			read{"n", "1.0.0", one, false},
		},
		"the newest version there is": {
			`{"cniVersion": "1.0.0", "cniVersions": ["1.1.0", "1.1.1"], "name": "n", "plugins": [{"type": "ptp"}]}`,
			read{"n", "1.1.0", one, false},
		},
		"several unknown versions": {
			`{"cniVersion": "3.0.0", "cniVersions": ["2.0.0"], "name": "n", "plugins": [{"type": "ptp"}]}`,
			read{"n", "3.0.0", one, false},
		},
		"flags as booleans": {
			`{"disableCheck": true, "disableGC": false, "loadOnlyInlinedPlugins": true, "name": "n", "plugins": [{"type": "ptp"}]}`,
			read{"n", "", one, true},
		},
		"flags as strings": {
			`{"disableCheck": "TRUE", "loadOnlyInlinedPlugins": "True", "disableGC": "false", "name": "n", "plugins": [{"type": "ptp"}]}`,
			read{"n", "", one, true},
		},
		"another flag is not ours": {
			`{"disableCheck": true, "disableGC": true, "name": "n", "plugins": [{"type": "ptp"}]}`, read{"n", "", one, false},
		},
		"null where libcni takes it": {
			`{"name": "n", "plugins": [{"type": "ptp", "name": null, "ipam": null, "dns": {"search": null}, "capabilities": {"a": null, "b": false}}]}`,
			read{"n", "", one, false},
		},
		"placeholders nobody else can tell from values": {
			`{"name": "n", "plugins": [{"type": "ptp", "mtu": "__MTU__", "shell": "${x} {a} }}{{"}]}`, read{"n", "", one, false},
		},
		"a type like the one of a file": {
			`{"name": "a.B-c_9", "plugins": [{"type": "my_plugin.v2-x"}]}`, read{"a.B-c_9", "", []string{"my_plugin.v2-x"}, false},
		},
		"keys of vendors, also in capitals": {
			`{"name": "n", "Vendor": 1, "plugins": [{"type": "ptp", "DNS": {"domain": "x"}, "TYPES": 1, "ipam": {"Type": "a", "b": [{}]}}]}`,
			read{"n", "", one, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := mustParse(t, c.text)
			have := read{list.Name(), list.CNIVersion(), types(list), list.InlinedOnly()}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Errorf("(-want +have)\n%s", diff)
			}
			if diff := cmp.Diff(c.text, string(list.Bytes())); diff != "" {
				t.Errorf("bytes (-want +have)\n%s", diff)
			}
		})
	}
}

func TestListIsImmutable(t *testing.T) {
	text := []byte(`{"name": "n", "plugins": [{"type": "ptp"}]}`)
	list, err := chaining.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	clear(text)
	clear(list.Bytes())
	clear(list.Plugins()[0].Bytes())
	clear(list.Plugins())
	if diff := cmp.Diff(want, string(list.Bytes())); diff != "" {
		t.Errorf("bytes (-want +have)\n%s", diff)
	}
	if diff := cmp.Diff(`{"type": "ptp"}`, string(list.Plugins()[0].Bytes())); diff != "" {
		t.Errorf("entry (-want +have)\n%s", diff)
	}
}

func TestFindGivesEveryPluginOfAType(t *testing.T) {
	list := listOf(t, `{"type": "a"}`, `{"type": "b"}`, `{"type": "a"}`)
	for kind, want := range map[string][]int{"a": {0, 2}, "b": {1}, "A": nil, "": nil} {
		if diff := cmp.Diff(want, list.Find(kind)); diff != "" {
			t.Errorf("%q (-want +have)\n%s", kind, diff)
		}
	}
}
