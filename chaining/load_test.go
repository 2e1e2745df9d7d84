package chaining_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

// said is what a test compares of what would be loaded: file: type@file…, or file: error.
func said(d chaining.Directory, l chaining.Loaded) string {
	file := "none"
	if l.At >= 0 {
		file = d.Files[l.At].Name
	}
	if l.Err != nil {
		return file + ": " + l.Err.Error()
	}
	for i, kind := range types(l.List) {
		file += fmt.Sprintf(" %s@%s", kind, l.From[i])
	}
	return file
}

func TestLoadPicksTheListAsTheRuntimeDoes_G3_G5(t *testing.T) {
	for name, c := range map[string]struct {
		files   map[string]string
		runtime chaining.Runtime
		want    string
	}{
		"the first by name": {map[string]string{"20-b.conflist": bridgeList, "10-a.conf": bridgeConf}, containerd, "10-a.conf bridge@10-a.conf"},
		"an invalid first file is an error to containerd": {
			map[string]string{"10-a.conflist": "", "20-b.conflist": bridgeList}, containerd, "10-a.conflist: 10-a.conflist: empty: write the configuration again, in one rename",
		},
		"CRI-O passes over it": {map[string]string{"10-a.conflist": "", "20-b.conflist": bridgeList}, crio, "20-b.conflist bridge@20-b.conflist"},
		"CRI-O does not pass over what libcni loads and Holdfast refuses": {
			map[string]string{"10-a.conflist": `{"name": "a", "name": "b", "plugins": [{"type": "x"}]}`, "20-b.conflist": bridgeList}, crio,
			`10-a.conflist: 10-a.conflist: line 1, column 15: duplicate key "name": remove one`,
		},
		"CRI-O passes over a list without plugins and drop-ins": {
			map[string]string{"10-a.conflist": `{"name": "a"}`, "20-b.conflist": bridgeList}, crio, "20-b.conflist bridge@20-b.conflist",
		},
		"CRI-O loads a list of drop-ins alone, which Holdfast refuses": {
			map[string]string{"10-a.conflist": `{"name": "a"}`, "a/1.conf": `{"type": "x"}`, "20-b.conflist": bridgeList}, crio,
			"10-a.conflist: 10-a.conflist: plugins: missing: give an array of plugin configurations",
		},
		"CRI-O's network by name": {
			map[string]string{"10-a.conflist": strings.Replace(bridgeList, "pods", "other", 1), "20-b.conflist": bridgeList},
			chaining.Runtime{SkipInvalid: true, Network: "pods"}, "20-b.conflist bridge@20-b.conflist",
		},
		"CRI-O's network is not there": {
			map[string]string{"20-b.conflist": bridgeList}, chaining.Runtime{SkipInvalid: true, Network: "x"},
			`none: no valid file has the network "x", which the runtime is told to use`,
		},
		"CRI-O passes over a list that names an executable it does not find": {
			map[string]string{"10-a.conflist": bridgeList, "pods/1.conf": ours, "20-b.conf": `{"name": "b", "type": "bridge"}`},
			chaining.Runtime{SkipInvalid: true, Dropins: true, Executables: map[string]bool{"bridge": true}}, "20-b.conf bridge@20-b.conf",
		},
		"containerd does not": {
			map[string]string{"10-a.conflist": bridgeList}, chaining.Runtime{Executables: map[string]bool{}}, "10-a.conflist bridge@10-a.conflist",
		},
		"nothing valid": {map[string]string{"20-b.conflist": "{"}, crio, "none: no file is valid, and the runtime passes over each"},
		"drop-ins in order, of the list's network": {
			map[string]string{
				"10-a.conflist": bridgeList, "pods/20.conf": `{"type": "y"}`, "pods/10.conf": `{"type": "x"}`,
				"pods/05.conflist": bridgeList, "pods/06.json": `{"type": "z"}`, "pods/sub.conf/x": "", "other/1.conf": `{"type": "z"}`,
			}, containerd, "10-a.conflist bridge@10-a.conflist x@pods/10.conf y@pods/20.conf",
		},
		"no drop-ins before libcni 1.3.0": {map[string]string{"10-a.conflist": bridgeList, "pods/1.conf": "{"}, chaining.Runtime{}, "10-a.conflist bridge@10-a.conflist"},
		"no drop-ins for a .conf":         {map[string]string{"10-a.conf": bridgeConf, "pods/1.conf": `{"type": "x"}`}, containerd, "10-a.conf bridge@10-a.conf"},
		"no drop-ins for a list that forbids them": {
			map[string]string{"10-a.conflist": strings.Replace(bridgeList, "{", `{"loadOnlyInlinedPlugins": true, `, 1), "pods/1.conf": `{"type": "x"}`},
			containerd, "10-a.conflist bridge@10-a.conflist",
		},
		"a broken drop-in takes the list with it": {
			map[string]string{"10-a.conflist": bridgeList, "pods/1.conf": `{"type": ""}`}, containerd,
			"10-a.conflist: pods/1.conf: type: empty: give the plugin's file name",
		},
		"and CRI-O goes on": {
			map[string]string{"10-a.conflist": bridgeList, "pods/1.conf": `{`, "20-b.conf": `{"name": "b", "type": "x"}`}, crio, "20-b.conf x@20-b.conf",
		},
		"a drop-in directory that is a link": {
			map[string]string{"10-a.conflist": bridgeList, "pods": "-> /srv/d", "/srv/d/1.conf": `{"type": "x"}`}, containerd,
			"10-a.conflist bridge@10-a.conflist x@pods/1.conf",
		},
		"a drop-in directory that is a link to nowhere": {map[string]string{"10-a.conflist": bridgeList, "pods": "-> /srv/d"}, containerd, "10-a.conflist bridge@10-a.conflist"},
		"a file where the drop-in directory would be": {
			map[string]string{"10-a.conflist": bridgeList, "pods": "x"}, containerd,
			"10-a.conflist: pods: the network's drop-in directory cannot be read (not a directory): remove it",
		},
		"a link to nowhere is an error to containerd": {
			map[string]string{"10-a.conf": "-> /none", "20-b.conflist": bridgeList}, containerd,
			"10-a.conf: 10-a.conf: a link that leads nowhere: remove it, or restore what it names",
		},
		"and passed over by CRI-O": {map[string]string{"10-a.conf": "-> /none", "20-b.conflist": bridgeList}, crio, "20-b.conflist bridge@20-b.conflist"},
		"a link to a directory is passed over by CRI-O": {
			map[string]string{"10-a.conf": "-> /srv", "/srv/x": "", "20-b.conflist": bridgeList}, crio, "20-b.conflist bridge@20-b.conflist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := read(t, host(c.files))
			if diff := cmp.Diff(c.want, said(d, d.Load(c.runtime))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadBearsHostileLists_G5(t *testing.T) {
	plugins := strings.Repeat(`{"type": "x"}, `, 999) + ours
	many := map[string]string{"10-a.conflist": `{"name": "pods", "plugins": [` + plugins + `]}`}
	d := read(t, host(many))
	loaded := d.Load(containerd)
	if verdict := chaining.Check(loaded.List, mustEntry(t, ours)); loaded.Err != nil || len(loaded.From) != 1000 || verdict.Reason != chaining.Chained {
		t.Errorf("a thousand plugins: %d, %v, %v", len(loaded.From), verdict, loaded.Err)
	}
	huge := map[string]string{"10-a.conflist": bridgeList + strings.Repeat(" ", 10<<20), "20-b.conflist": bridgeList}
	for _, runtime := range []chaining.Runtime{containerd, crio} { // libcni would load it
		d = read(t, host(huge))
		if loaded = d.Load(runtime); loaded.At != 0 || !errors.Is(loaded.Err, chaining.ErrTooLarge) {
			t.Errorf("10 MiB: %s", said(d, loaded))
		}
	}
	crowd := fstest.MapFS{}
	for i := range 5000 {
		crowd[fmt.Sprintf("%s/%05d.conflist", netd, i)] = &fstest.MapFile{Data: []byte("{")}
	}
	d = read(t, crowd)
	if loaded = d.Load(crio); len(d.Files) != 5000 || !errors.Is(loaded.Err, chaining.ErrTooLarge) {
		t.Errorf("5000 files: %s", said(d, loaded))
	}
}

func TestShadowedNamesTheListThatHasTheEntry_G3(t *testing.T) {
	d := read(t, host(map[string]string{"00-multus.conf": bridgeConf, "05-bad.conflist": "{", "10-a.conflist": bridgeList, "pods/1.conf": ours}))
	if got := d.Shadowed(d.Load(containerd), containerd, "holdfast-cni"); got != "10-a.conflist" {
		t.Errorf("%q", got)
	}
	if got := d.Shadowed(d.Load(containerd), chaining.Runtime{}, "holdfast-cni"); got != "" {
		t.Errorf("without drop-ins: %q", got)
	}
}
