package chaining_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

// withPlugin is a list whose only trouble is in its second plugin.
func withPlugin(plugin string) string {
	return `{"name": "n", "plugins": [{"type": "ptp"}, ` + plugin + `]}`
}

func TestParseRefusesBrokenTextAndNamesPlaceAndFix_G5(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		kind error
		want string
	}{
		"zero bytes":       {"", chaining.ErrEmpty, `empty: write the configuration again, in one rename`},
		"white space only": {" \r\n\t", chaining.ErrEmpty, `empty: write the configuration again, in one rename`},
		"truncated": {
			"{\n  \"name\": \"n\",\n  \"plug", chaining.ErrSyntax, `line 3, column 8: the text ends too early: complete it`,
		},
		"truncated between values": {`{"name": "n",`, chaining.ErrSyntax, `line 1, column 14: the text ends too early: complete it`},
		"trailing garbage": {
			`{"name": "n", "plugins": [{"type": "ptp"}]}` + "\n}", chaining.ErrSyntax,
			`line 2, column 1: something follows the end of the configuration: remove it`,
		},
		"two lists":      {"{} {}", chaining.ErrSyntax, `line 1, column 4: something follows the end of the configuration: remove it`},
		"trailing comma": {"{},", chaining.ErrSyntax, `line 1, column 3: something follows the end of the configuration: remove it`},
		"NUL bytes at the end, as after a crash": {
			"{}\x00\x00", chaining.ErrSyntax, `line 1, column 3: something follows the end of the configuration: remove it`,
		},
		"comment": {
			"{\n// hello\n}", chaining.ErrSyntax,
			`line 2, column 1: invalid character '/' at start of value: correct it there`,
		},
		"comma before the end": {
			`{"name": "é",}`, chaining.ErrSyntax, `line 1, column 13: invalid character ',' at start of value: correct it there`,
		},
		"byte order mark": {
			"\ufeff{}", chaining.ErrSyntax, `line 1, column 1: a byte order mark: save the text as UTF-8 without one`,
		},
		"duplicate key": {
			"{\"name\": \"n\",\n \"name\": \"m\"}", chaining.ErrDuplicateKey, `line 2, column 2: duplicate key "name": remove one`,
		},
		"duplicate key far down, spelled otherwise": {
			withPlugin(`{"type": "x", "a": [{"b": 1, "\u0062": 2}]}`), chaining.ErrDuplicateKey,
			`line 1, column 73: duplicate key "b": remove one`,
		},
		"template between values": {
			"{\n \"name\": \"n\", \"plugins\": [{{range .Plugins}}]}", chaining.ErrTemplate,
			`line 2, column 27: a template that was never rendered: write what it stands for`,
		},
		"template in a string": {
			withPlugin(`{"type": "x", "k": {"kubeconfig": "{{ .File }}"}}`), chaining.ErrTemplate,
			`plugins[1].k.kubeconfig: "{{ .File }}" was never rendered: write what it stands for`,
		},
		"template in a key": {
			`{"{{ .X }}": 1, "name": "n", "plugins": [{"type": "ptp"}]}`, chaining.ErrTemplate,
			`key "{{ .X }}" was never rendered: write what it stands for`,
		},
		"too large": {
			strings.Repeat(" ", chaining.MaxSize+1), chaining.ErrTooLarge,
			`1048577 bytes where at most 1048576 are read: give a CNI configuration, nothing else`,
		},
		"too deep": {
			strings.Repeat("[", 65), chaining.ErrTooLarge, `line 1, column 65: nested deeper than 64 levels: flatten it`,
		},
		"too many values": {
			"[0" + strings.Repeat(",0", 1<<16-1) + "]", chaining.ErrTooLarge,
			`line 1, column 131072: more than 65536 values: give a CNI configuration, nothing else`,
		},
		"number out of range": {
			withPlugin(`{"type": "x", "a.b": [0, 1e309]}`), chaining.ErrInvalid,
			`plugins[1]["a.b"][1]: number 1e309 is out of range: write a smaller one`,
		},
		"long number out of range": {
			withPlugin(`{"type": "x", "a": 1` + strings.Repeat("0", 400) + `}`), chaining.ErrInvalid,
			`plugins[1].a: number 1` + strings.Repeat("0", 59) + `… is out of range: write a smaller one`,
		},
		"exponent out of range": {
			`{"x": 1e-1234567890}`, chaining.ErrInvalid,
			`line 1, column 7: a number with an exponent that no reader can hold: write it shorter`,
		},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.text, c.kind, c.want) })
	}
}

func TestParseRefusesInvalidUTF8_G5(t *testing.T) {
	for _, text := range []string{"{\"a\xff\": 1}", "{\"a\": \"\xc3\"}", `{"a": "\ud800"}`} {
		if _, err := chaining.Parse([]byte(text)); !errors.Is(err, chaining.ErrSyntax) {
			t.Errorf("%q: want ErrSyntax, have %v", text, err)
		}
	}
}

func TestParseRefusesListsARuntimeCouldNotUse_G5(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, c := range map[string]struct {
		text string
		kind error
		want string
	}{
		"array":  {`[]`, chaining.ErrInvalid, `must be an object with name, cniVersion and plugins: give a CNI network configuration list`},
		"scalar": {`"plugins"`, chaining.ErrInvalid, `must be an object with name, cniVersion and plugins: give a CNI network configuration list`},
		"no name": {
			`{"plugins": [{"type": "ptp"}]}`, chaining.ErrInvalid, `name: missing: give the network's name`,
		},
		"name null":   {`{"name": null}`, chaining.ErrInvalid, `name: must be a string: give the network's name`},
		"name empty":  {`{"name": ""}`, chaining.ErrInvalid, `name: empty: give the network's name`},
		"name a path": {`{"name": "a/b"}`, chaining.ErrInvalid, `name: contains "/": give the network's name only`},
		"name of dots": {
			`{"name": ".."}`, chaining.ErrInvalid, `name: starts with ".": give the network's name only`,
		},
		"name in another script": {`{"name": "näme"}`, chaining.ErrInvalid, `name: contains "ä": give the network's name only`},
		"name too long for a directory": {
			`{"name": "` + long + `"}`, chaining.ErrInvalid, `name: longer than 255 bytes: give the network's name`,
		},
		"no plugins":      {`{"name": "n", "pugins": []}`, chaining.ErrNoPlugins, `plugins: missing: give an array of plugin configurations`},
		"plugins empty":   {`{"name": "n", "plugins": []}`, chaining.ErrNoPlugins, `plugins: empty: give at least one plugin configuration`},
		"plugins null":    {`{"name": "n", "plugins": null}`, chaining.ErrInvalid, `plugins: must be an array: give an array of plugin configurations`},
		"a single plugin": {`{"name": "n", "type": "ptp"}`, chaining.ErrNoPlugins, `plugins: missing, but there is a type: this is one plugin's configuration, give it where those are read (.conf)`},
		"version a number": {
			`{"name": "n", "cniVersion": 1.0}`, chaining.ErrInvalid, `cniVersion: not a version: write it as "1.0.0"`,
		},
		"version null":             {`{"name": "n", "cniVersion": null}`, chaining.ErrInvalid, `cniVersion: not a version: write it as "1.0.0"`},
		"version short":            {`{"name": "n", "cniVersion": "1.0"}`, chaining.ErrInvalid, `cniVersion: not a version: write it as "1.0.0"`},
		"version padded":           {`{"name": "n", "cniVersion": "1.00.0"}`, chaining.ErrInvalid, `cniVersion: not a version: write it as "1.0.0"`},
		"version signed":           {`{"name": "n", "cniVersion": "1.+1.0"}`, chaining.ErrInvalid, `cniVersion: not a version: write it as "1.0.0"`},
		"version a placeholder":    {`{"name": "n", "cniVersion": "VERSION"}`, chaining.ErrInvalid, `cniVersion: not a version: write it as "1.0.0"`},
		"versions a string":        {`{"name": "n", "cniVersions": "1.0.0"}`, chaining.ErrInvalid, `cniVersions: must be an array of versions: write ["1.0.0"] or remove it`},
		"one of the versions none": {`{"name": "n", "cniVersions": ["1.0.0", ""]}`, chaining.ErrInvalid, `cniVersions[1]: not a version: write it as "1.0.0"`},
		"flag a number":            {`{"name": "n", "disableGC": 1}`, chaining.ErrInvalid, `disableGC: must be true or false: correct or remove it`},
		"flag neither":             {`{"name": "n", "loadOnlyInlinedPlugins": "yes"}`, chaining.ErrInvalid, `loadOnlyInlinedPlugins: must be true or false: correct or remove it`},
		"Name": {
			`{"Name": "n", "plugins": [{"type": "ptp"}]}`, chaining.ErrDuplicateKey,
			`key "Name" is read as "name" by some and ignored by others: write "name" or rename it`,
		},
		"PLUGINS beside plugins": {
			`{"name": "n", "plugins": [{"type": "ptp"}], "PLUGINS": []}`, chaining.ErrDuplicateKey,
			`key "PLUGINS" is read as "plugins" by some and ignored by others: write "plugins" or rename it`,
		},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.text, c.kind, c.want) })
	}
}

func refused(t *testing.T, text string, kind error, want string) {
	t.Helper()
	list, err := chaining.Parse([]byte(text))
	if err == nil {
		t.Fatalf("accepted: %s", list.Bytes())
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("message (-want +have)\n%s", diff)
	}
	if !errors.Is(err, kind) {
		t.Errorf("want errors.Is %v, have %#v", kind, err)
	}
}
