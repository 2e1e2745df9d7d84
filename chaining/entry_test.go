package chaining_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

func TestEntryKeepsItsBytes_G2(t *testing.T) {
	text := "{\n  \"z\": 1e3, \"a\": 12345678901234567890,\n  \"\\u0074ype\": \"hold\\u0066ast-cni\", \"s\": \"\\/ <&>\"\n}"
	given := []byte("\r\n\t " + text + " \n")
	entry, err := chaining.ParseEntry(given)
	if err != nil {
		t.Fatal(err)
	}
	clear(given)
	clear(entry.Bytes())
	if diff := cmp.Diff(text, string(entry.Bytes())); diff != "" {
		t.Errorf("bytes (-want +have)\n%s", diff)
	}
	if want, have := "holdfast-cni", entry.Type(); want != have {
		t.Errorf("type: want %q, have %q", want, have)
	}
}

func TestPluginsARuntimeCouldNotUseAreRefused_G5(t *testing.T) {
	const only = ": give the plugin's file name only"
	for name, c := range map[string]struct {
		plugin string
		path   string
		want   string
	}{
		"no object":       {`"ptp"`, "", "must be an object: give one plugin's configuration"},
		"null":            {`null`, "", "must be an object: give one plugin's configuration"},
		"no type":         {`{"name": "x"}`, "type", "missing: give the plugin's file name"},
		"type null":       {`{"type": null}`, "type", "must be a string: give the plugin's file name"},
		"type empty":      {`{"type": ""}`, "type", "empty: give the plugin's file name"},
		"type a path":     {`{"type": "bin/x"}`, "type", `contains "/"` + only},
		"type outside":    {`{"type": "../x"}`, "type", `starts with "."` + only},
		"type a dot":      {`{"type": "."}`, "type", `starts with "."` + only},
		"type backslash":  {`{"type": "a\\b"}`, "type", `contains "\\"` + only},
		"type NUL":        {`{"type": "a\u0000b"}`, "type", `contains "\x00"` + only},
		"type white":      {`{"type": "a b"}`, "type", `contains " "` + only},
		"type an option":  {`{"type": "-a"}`, "type", `starts with "-"` + only},
		"type too long":   {`{"type": "` + strings.Repeat("x", 256) + `"}`, "type", "longer than 255 bytes: give the plugin's file name"},
		"a list":          {`{"name": "n", "plugins": []}`, "type", "missing, but there are plugins: this is a list, give it where lists are read (.conflist)"},
		"name no string":  {`{"type": "x", "name": 1}`, "name", "must be a string: correct or remove it"},
		"version":         {`{"type": "x", "cniVersion": 1}`, "cniVersion", "must be a string: correct or remove it"},
		"capabilities":    {`{"type": "x", "capabilities": ["a"]}`, "capabilities", "must be an object of true or false: correct or remove it"},
		"one capability":  {`{"type": "x", "capabilities": {"io.x": "true"}}`, `capabilities["io.x"]`, "must be true or false: correct or remove it"},
		"ipam":            {`{"type": "x", "ipam": "host-local"}`, "ipam", "must be an object: correct or remove it"},
		"ipam type":       {`{"type": "x", "ipam": {"TYPE": false}}`, "ipam.TYPE", "must be a string: correct or remove it"},
		"dns":             {`{"type": "x", "Dns": {"nameservers": ["a", 1]}}`, "Dns.nameservers[1]", "must be a string: correct or remove it"},
		"dns search":      {`{"type": "x", "dns": {"search": "a"}}`, "dns.search", "must be an array of strings: correct or remove it"},
		"previous result": {`{"type": "x", "prevResult": []}`, "prevResult", "must be an object: correct or remove it"},
		"attachments":     {`{"type": "x", "cni.dev/valid-attachments": [{"ifname": 0}]}`, `["cni.dev/valid-attachments"][0].ifname`, "must be a string: correct or remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, withPlugin(c.plugin), chaining.ErrInvalid, inPlace("plugins[1]", c.path)+": "+c.want)

			want := c.want
			if c.path != "" {
				want = c.path + ": " + want
			}
			_, err := chaining.ParseEntry([]byte(c.plugin))
			if err == nil || err.Error() != want || !errors.Is(err, chaining.ErrInvalid) {
				t.Errorf("entry: want %q, have %v", want, err)
			}
		})
	}
}

func TestKeysThatDifferByCaseAreRefused_G5(t *testing.T) {
	for key, like := range map[string]string{"Type": "type", "TYPE": "type", "NAME": "name", "CniVersion": "cniVersion", "cniVerſion": "cniVersion"} {
		plugin := `{"type": "ptp", "` + key + `": "other"}`
		want := `key "` + key + `" is read as "` + like + `" by some and ignored by others: write "` + like + `" or rename it`
		refused(t, withPlugin(plugin), chaining.ErrDuplicateKey, "plugins[1]: "+want)
		if _, err := chaining.ParseEntry([]byte(plugin)); err == nil || err.Error() != want {
			t.Errorf("entry: want %q, have %v", want, err)
		}
	}
}

func TestErrorsRepeatLittleOfTheInput(t *testing.T) {
	long := strings.Repeat("secret ", 1000)
	long2, long3 := strings.Repeat("é", 1000), "-"+strings.Repeat("é", 1000) // one of them is cut within a character
	for _, text := range []string{
		`{"type": "x", "` + long + `": 1, "` + long + `": 2}`,
		`{"type": "x", "` + long + `": {"` + long + `": {"` + long + `": 1e999}}}`,
		`{"type": "x", "a": "{{` + long + `}}"}`,
		`{"type": "x", "a": 1` + strings.Repeat("0", 5000) + `}`,
		`{"type": "` + long + `"}`,
		`{"type": "x", "a": ` + long + `}`,
		`{"type": "x", "` + long2 + `": {"` + long2 + `": {"` + long2 + `": "{{` + long2 + `}}"}}}`,
		`{"type": "x", "` + long3 + `": {"` + long3 + `": {"` + long3 + `": "{{` + long3 + `}}"}}}`,
		`{"type": "x", "` + long3 + `": {"` + long2 + `": {"` + long3 + `": "{{-` + long2 + `}}"}}}`,
	} {
		_, err := chaining.ParseEntry([]byte(text))
		if err == nil {
			t.Errorf("accepted: %.40s", text)
		} else if have := err.Error(); len(have) > 250 || !utf8.ValidString(have) || strings.Contains(have, `\x`) {
			t.Errorf("%d bytes: %v", len(err.Error()), err)
		}
	}
}

func inPlace(parent, child string) string {
	if child == "" || child[0] == '[' {
		return parent + child
	}
	return parent + "." + child
}
