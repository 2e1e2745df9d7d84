package chaining_test

//lint:file-ignore SA1019 libcni calls .conf files deprecated; runtimes still load them, so it stays the oracle.

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/utils"

	"github.com/holdfast-cni/holdfast/chaining"
)

// seeds hold every construct some rule is about; the fuzzer breaks them.
var seeds = []string{
	`{"cniVersion": "0.3.1", "name": "pods", "plugins": [{"type": "ptp", "ipam": {"type": "host-local"}}, {"type": "portmap", "capabilities": {"a": true}}]}`,
	`{"cniVersions": ["0.4.0", "1.0.0", "9.0.0"], "name": "n", "disableCheck": "TRUE", "disableGC": false, "loadOnlyInlinedPlugins": true, "plugins": [{"type": "x"}]}`,
	"{\r\n\t\"name\": \"n\",\r\n\t\"plugins\": [\r\n\r\n\t{\"type\": \"x\", \"dns\": {\"nameservers\": [\"a\", null], \"DOMAIN\": \"b\"}}\r\n]}",
	`{"name": "n", "plugins": [{"type": "x", "name": null, "prevResult": {"a": 1e-400}, "cni.dev/valid-attachments": [{"containerID": "a"}]}]}`,
	`{"name": "n", "plugins": [{"Type": "x", "\u0074ype": "y", "IPAM": {"TYPE": 1e308}}], "x": -12345678901234567890.5e+3}`,
	`{"type": "x", "name": "n", "cniVersion": "1.0.0", "cniver\u017fion": "", "a": "{{ . }}", "b": "\ud83d\ude00"}`,
	`[{"a": [1, 1.0, 10e-1, -0, null, true, false, "é\n"]}, {}]`,
}

func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if list, err := chaining.Parse(data); err != nil {
			wellSaid(t, err)
		} else {
			if !bytes.Equal(data, list.Bytes()) {
				t.Fatalf("bytes changed: %q", list.Bytes())
			}
			accepted, err := libcni.NetworkConfFromBytes(data)
			libcniAgrees(t, accepted, err, list)
		}
		if list, err := chaining.ParseConf(data); err != nil {
			wellSaid(t, err)
		} else {
			conf, err := libcni.ConfFromBytes(data)
			if err != nil {
				t.Fatalf("libcni refuses the configuration: %v", err)
			}
			accepted, err := libcni.ConfListFromConf(conf)
			libcniAgrees(t, accepted, err, list)
		}
	})
}

// libcniAgrees takes an accepted list as far as libcni does before it calls a plugin.
func libcniAgrees(t *testing.T, accepted *libcni.NetworkConfigList, err error, list chaining.List) {
	t.Helper()
	if err != nil {
		t.Fatalf("libcni refuses the list: %v", err)
	}
	sameAsLibcni(t, accepted, list)
	if err := utils.ValidateNetworkName(list.Name()); err != nil {
		t.Fatalf("libcni refuses the name: %v", err)
	}
	for _, plugin := range accepted.Plugins {
		if _, err := libcni.InjectConf(plugin, map[string]any{"name": accepted.Name, "cniVersion": accepted.CNIVersion}); err != nil {
			t.Fatalf("libcni can't hand over the plugin's configuration: %v", err)
		}
	}
}

func FuzzEntry(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Add([]byte(" " + ours + "\n"))
	base := mustParse(f, seeds[0])
	f.Fuzz(func(t *testing.T, data []byte) {
		entry, err := chaining.ParseEntry(data)
		if err != nil {
			wellSaid(t, err)
			return
		}
		if !bytes.Equal(bytes.Trim(data, " \t\r\n"), entry.Bytes()) {
			t.Fatalf("bytes changed: %q", entry.Bytes())
		}
		conf, err := libcni.ConfFromBytes(data)
		if err != nil || conf.Network.Type != entry.Type() {
			t.Fatalf("libcni: %v %+v, ours: %q", err, conf, entry.Type())
		}
		list, err := base.Append(entry)
		if errors.Is(err, chaining.ErrTooLarge) {
			return
		}
		if err != nil {
			t.Fatalf("no list takes the entry: %v", err)
		}
		if len(base.Find(entry.Type())) == 0 {
			if have := chaining.Check(list, entry); have.Reason != chaining.Chained {
				t.Fatalf("appended, but %s: %v", have.Reason, have.Differences)
			}
		}
	})
}

func FuzzEdit(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed), []byte(ours), 0)
	}
	f.Add([]byte(seeds[0]), []byte("{\n\"type\": \"x\"\n}"), 1)
	f.Fuzz(func(t *testing.T, data, text []byte, at int) {
		list, err := chaining.Parse(data)
		entry, entryErr := chaining.ParseEntry(text)
		if err != nil || entryErr != nil {
			return
		}
		count := len(list.Plugins())
		if appended, err := list.Append(entry); err == nil {
			untouched(t, list, appended, count, count)
			back := edited(t)(appended.Remove(count))
			if !bytes.Equal(data, back.Bytes()) {
				t.Fatalf("append and remove: want %q, have %q", data, back.Bytes())
			}
		} else if !errors.Is(err, chaining.ErrTooLarge) {
			t.Fatalf("append: %v", err)
		}
		at = int(uint(at) % uint(count))
		if replaced, err := list.Replace(at, entry); err == nil {
			untouched(t, list, replaced, at, at+1)
			back := edited(t)(replaced.Replace(at, list.Plugins()[at]))
			if !bytes.Equal(data, back.Bytes()) {
				t.Fatalf("replace and back: want %q, have %q", data, back.Bytes())
			}
		} else if !errors.Is(err, chaining.ErrTooLarge) {
			t.Fatalf("replace: %v", err)
		}
		if removed, err := list.Remove(at); err == nil {
			untouched(t, removed, list, at, at)
		} else if count > 1 {
			t.Fatalf("remove: %v", err)
		}
	})
}

// untouched holds that one edit of a single plugin left every other one and all around them: old[at:rest] was replaced
// by one plugin of edited.
func untouched(t *testing.T, old, edited chaining.List, at, rest int) {
	t.Helper()
	before, after := old.Plugins(), edited.Plugins()
	if len(after) != len(before)-(rest-at)+1 {
		t.Fatalf("%d plugins became %d", len(before), len(after))
	}
	for i, plugin := range before {
		j := i
		if i >= rest {
			j = i - rest + at + 1
		} else if i >= at {
			continue
		}
		if !bytes.Equal(plugin.Bytes(), after[j].Bytes()) {
			t.Fatalf("plugin %d: want %q, have %q", i, plugin.Bytes(), after[j].Bytes())
		}
	}
	if old.Name() != edited.Name() || old.CNIVersion() != edited.CNIVersion() || old.InlinedOnly() != edited.InlinedOnly() {
		t.Fatalf("the list's own keys changed: %q", edited.Bytes())
	}
}

// wellSaid holds every error to a sentinel, a bounded message on one line, and a fix after a colon.
func wellSaid(t *testing.T, err error) {
	t.Helper()
	known := false
	for _, kind := range []error{
		chaining.ErrEmpty, chaining.ErrTooLarge, chaining.ErrSyntax, chaining.ErrTemplate, chaining.ErrDuplicateKey,
		chaining.ErrNoPlugins, chaining.ErrInvalid,
	} {
		known = known || errors.Is(err, kind)
	}
	if text := err.Error(); !known || len(text) > 512 || strings.ContainsAny(text, "\n\r") || !strings.Contains(text, ": ") {
		t.Fatalf("badly said: %d bytes: %q", len(text), text)
	}
}
