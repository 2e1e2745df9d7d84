package chaining_test

//lint:file-ignore SA1019 libcni calls .conf files deprecated; runtimes still load them, so it stays the oracle.

import (
	"errors"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

func TestConfBecomesAListWithItsBytesUnchanged_G1_G2(t *testing.T) {
	conf := "{\n    \"cniVersion\": \"0.3.0\",\n    \"name\":\"mynet\",\n    \"type\":\"bridge\", \"mtu\": 1.5e3\n}"
	list, err := chaining.ParseConf([]byte("\n" + conf + "\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"cniVersion\": \"0.3.0\",\n  \"name\": \"mynet\",\n  \"plugins\": [\n    " + conf + "\n  ]\n}\n"
	if diff := cmp.Diff(want, string(list.Bytes())); diff != "" {
		t.Errorf("list (-want +have)\n%s", diff)
	}
	if diff := cmp.Diff(conf, string(list.Plugins()[0].Bytes())); diff != "" {
		t.Errorf("plugin (-want +have)\n%s", diff)
	}
}

func TestConfIsReadAsLibcniReadsIt_G1(t *testing.T) {
	for _, text := range []string{
		`{"cniVersion": "0.3.0", "name": "mynet", "type": "bridge", "ipam": {"type": "host-local"}}`,
		`{"name": "mynet", "type": "bridge"}`,
		`{"cniVersion": "", "name": "mynet", "type": "bridge", "cniVersions": ["1.0.0"]}`,
	} {
		have, err := chaining.ParseConf([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		conf, err := libcni.ConfFromBytes([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		want, err := libcni.ConfListFromConf(conf)
		if err != nil {
			t.Fatal(err)
		}
		sameAsLibcni(t, want, have)
	}
}

func TestConfThatCanNotBeAListIsRefused_G5(t *testing.T) {
	deep := `{"name": "n", "type": "x", "a": ` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + "}"
	for text, want := range map[string]struct {
		kind    error
		message string
	}{
		``:                             {chaining.ErrEmpty, "empty: write the configuration again, in one rename"},
		`{"type": "x"}`:                {chaining.ErrInvalid, "name: missing: give the network's name"},
		`{"type": "x", "name": null}`:  {chaining.ErrInvalid, "name: must be a string: give the network's name"},
		`{"type": "x", "name": "a b"}`: {chaining.ErrInvalid, `name: contains " ": give the network's name only`},
		`{"type": "x", "name": "n", "cniVersion": null}`: {chaining.ErrInvalid, `cniVersion: not a version: write it as "1.0.0"`},
		`{"name": "n", "plugins": [{"type": "x"}]}`:      {chaining.ErrInvalid, "type: missing, but there are plugins: this is a list, give it where lists are read (.conflist)"},
		deep: {chaining.ErrTooLarge, "line 4, column 98: nested deeper than 64 levels: flatten it"},
	} {
		_, err := chaining.ParseConf([]byte(text))
		if err == nil || err.Error() != want.message || !errors.Is(err, want.kind) {
			t.Errorf("%.60s: want %q, have %v", text, want.message, err)
		}
	}
}

// sameAsLibcni compares what decides which plugins run, and how.
func sameAsLibcni(t *testing.T, want *libcni.NetworkConfigList, have chaining.List) {
	t.Helper()
	var kinds []string
	for _, plugin := range want.Plugins {
		kinds = append(kinds, plugin.Network.Type)
	}
	if diff := cmp.Diff(kinds, types(have)); diff != "" {
		t.Errorf("types (-libcni +ours)\n%s", diff)
	}
	if want.Name != have.Name() || want.CNIVersion != have.CNIVersion() || want.LoadOnlyInlinedPlugins != have.InlinedOnly() {
		t.Errorf("libcni: %q %q %v, ours: %q %q %v", want.Name, want.CNIVersion, want.LoadOnlyInlinedPlugins,
			have.Name(), have.CNIVersion(), have.InlinedOnly())
	}
}
