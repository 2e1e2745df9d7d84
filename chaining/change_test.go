package chaining_test

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

// steps are the directory after each step of a change, the last one done.
func steps(root fstest.MapFS, c chaining.Change) []fstest.MapFS {
	var all []fstest.MapFS
	root = maps.Clone(root)
	for _, put := range c.Put {
		root[path.Join(netd, put.Name)] = &fstest.MapFile{Data: put.Data, Mode: put.Mode}
		all = append(all, maps.Clone(root))
	}
	for _, name := range c.Remove {
		delete(root, path.Join(netd, name))
		all = append(all, maps.Clone(root))
	}
	return all
}

func after(root fstest.MapFS, c chaining.Change) fstest.MapFS {
	if all := steps(root, c); len(all) > 0 {
		return all[len(all)-1]
	}
	return root
}

// ownFiles are what is Holdfast's in a directory, by name; foreign are all others.
func ownFiles(root fstest.MapFS) (own, foreign map[string]string) {
	own, foreign = map[string]string{}, map[string]string{}
	for name, file := range root {
		if within, ok := strings.CutPrefix(name, netd+"/"); ok && chaining.IsOwn(within) {
			own[within] = string(file.Data)
		} else if file.Mode != fs.ModeDir {
			foreign[name] = string(file.Data)
		}
	}
	return own, foreign
}

const (
	otherList  = `{"name": "other", "cniVersion": "1.0.0", "plugins": [{"type": "ptp"}]}`
	chainedBy  = `{"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "bridge"},` + ours + `]}`
	inlined    = `{"loadOnlyInlinedPlugins": true,"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "bridge"},` + ours + `]}`
	confAsList = "{\n  \"loadOnlyInlinedPlugins\": true,\n  \"cniVersion\": \"1.0.0\",\n  \"name\": \"pods\",\n  \"plugins\": [\n    " + bridgeConf + ",\n    " + ours + "\n  ]\n}\n"
	staleOurs  = `{"type": "holdfast-cni", "resolvers": ["10.0.0.1"]}`
	bridgeOnly = "pods/99-holdfast.conf"
)

var older = chaining.Runtime{}

func TestChangeKeepsTheEntryChained_N2_G1_G2_G3(t *testing.T) {
	const dropin = ours + "\n"
	none := map[string]string{}
	for name, c := range map[string]struct {
		files    map[string]string
		runtime  chaining.Runtime
		strategy chaining.Strategy
		want     map[string]string // own files afterwards
	}{
		"a drop-in":               {map[string]string{"10-a.conflist": bridgeList}, containerd, chaining.ByDropin, map[string]string{bridgeOnly: dropin}},
		"a list":                  {map[string]string{"10-a.conflist": bridgeList}, older, chaining.ByList, map[string]string{"10-a-holdfast.conflist": chainedBy}},
		"a list that takes none":  {map[string]string{"10-a.conflist": bridgeList}, containerd, chaining.ByList, map[string]string{"10-a-holdfast.conflist": inlined}},
		"a list of a .conf":       {map[string]string{"10-a.conf": bridgeConf, "pods/50.conf": "{"}, containerd, chaining.ByList, map[string]string{"10-a-holdfast.conflist": confAsList}},
		"a list of a .json":       {map[string]string{"10-a.json": bridgeConf}, crio, chaining.ByList, map[string]string{"10-a-holdfast.conflist": confAsList}},
		"a list of a dotfile":     {map[string]string{".conflist": bridgeList}, older, chaining.ByList, map[string]string{"-holdfast.conflist": chainedBy}},
		"nothing, Cilium writes":  {map[string]string{"05-cilium.conflist": bridgeList}, containerd, chaining.ByCilium, none},
		"nothing, it is chained":  {map[string]string{"05-cilium.conflist": chainedBy}, containerd, chaining.ByDropin, none},
		"a drop-in behind others": {map[string]string{"10-a.conflist": bridgeList, "pods/99-x.conf": `{"type": "x"}`}, containerd, chaining.ByDropin, map[string]string{"pods/99-x_holdfast.conf": dropin}},
		"a drop-in behind others, moved": {
			map[string]string{"10-a.conflist": bridgeList, "pods/z.conf": `{"type": "x"}`, "pods/99-holdfast.conf": dropin}, containerd, chaining.ByDropin,
			map[string]string{"pods/z_holdfast.conf": dropin},
		},
		"a drop-in that is last keeps its name": {
			map[string]string{"10-a.conflist": bridgeList, "pods/z_holdfast.conf": dropin, "pods/50-x.conf": `{"type": "x"}`}, containerd, chaining.ByDropin,
			map[string]string{"pods/z_holdfast.conf": dropin},
		},
		"a list with the drop-ins of others": {
			map[string]string{"10-a.conflist": bridgeList, "pods/z.conf": `{"type": "x"}`}, containerd, chaining.ByList,
			map[string]string{"10-a-holdfast.conflist": strings.Replace(inlined, ours, `{"type": "x"},`+ours, 1)},
		},
		"a list for one that says loadOnlyInlinedPlugins": {
			map[string]string{"10-a.conflist": inlinedBy("true")}, containerd, chaining.ByList,
			map[string]string{"10-a-holdfast.conflist": strings.Replace(inlinedBy("true"), `"bridge"}`, `"bridge"},`+ours, 1)},
		},
		"a list for one that denies it": {
			map[string]string{"10-a.conflist": inlinedBy(`"FALSE"`)}, containerd, chaining.ByList,
			map[string]string{"10-a-holdfast.conflist": strings.Replace(inlinedBy("true"), `"bridge"}`, `"bridge"},`+ours, 1)},
		},
		"a list without the stale entries": {
			map[string]string{"10-a.conflist": strings.NewReplacer(`{"type": "bridge"}`, staleOurs+`, {"type": "bridge"}, `+staleOurs+`,`+staleOurs).Replace(bridgeList)}, older, chaining.ByList,
			map[string]string{"10-a-holdfast.conflist": chainedBy},
		},
		"a list with nothing but the entry": {
			map[string]string{"10-a.conflist": strings.ReplaceAll(bridgeList, `{"type": "bridge"}`, staleOurs)}, older, chaining.ByList,
			map[string]string{"10-a-holdfast.conflist": strings.ReplaceAll(bridgeList, `{"type": "bridge"}`, ours)},
		},
		"another plugin.json": {map[string]string{"10-a.conflist": bridgeList, "pods/99-holdfast.conf": staleOurs}, containerd, chaining.ByDropin, map[string]string{bridgeOnly: dropin}},
		"another primary": {
			map[string]string{"05-b.conflist": otherList, "10-a.conflist": bridgeList, "10-a-holdfast.conflist": chainedBy}, older, chaining.ByList,
			map[string]string{"05-b-holdfast.conflist": strings.Replace(otherList, `"ptp"}`, `"ptp"},`+ours, 1)},
		},
		"another primary's network": {
			map[string]string{"05-b.conflist": otherList, "10-a.conflist": bridgeList, "pods/99-holdfast.conf": dropin}, containerd, chaining.ByDropin, map[string]string{"other/99-holdfast.conf": dropin},
		},
		"a primary that changed":     {map[string]string{"10-a.conflist": bridgeList, "10-a-holdfast.conflist": strings.ReplaceAll(chainedBy, "bridge", "ptp")}, older, chaining.ByList, map[string]string{"10-a-holdfast.conflist": chainedBy}},
		"a broken file of ours":      {map[string]string{"10-a.conflist": bridgeList, "10-a-holdfast.conflist": "{", "pods/99-holdfast.conf": "{"}, containerd, chaining.ByDropin, map[string]string{bridgeOnly: dropin}},
		"a link of our name":         {map[string]string{"10-a.conflist": bridgeList, "10-a-holdfast.conflist": "-> /x", "/x": chainedBy}, older, chaining.ByList, map[string]string{"10-a-holdfast.conflist": chainedBy}},
		"a primary that is gone":     {map[string]string{"10-a-holdfast.conflist": chainedBy, "pods/99-holdfast.conf": dropin}, containerd, chaining.ByList, none},
		"gone, but may come back":    {map[string]string{"10-a-holdfast.conflist": chainedBy, "pods/99-holdfast.conf": dropin}, containerd, chaining.ByDropin, map[string]string{bridgeOnly: dropin}},
		"gone to CRI-O":              {map[string]string{"87-podman.conflist": otherList, "10-a-holdfast.conflist": chainedBy}, chaining.Runtime{SkipInvalid: true, Network: "pods"}, chaining.ByList, none},
		"CRI-O passes over a broken": {map[string]string{"05-x.conflist": "{", "10-a.conflist": bridgeList}, crio, chaining.ByDropin, map[string]string{bridgeOnly: dropin}},
		"of every stale network": {
			map[string]string{"10-a.conflist": bridgeList, "x/99-holdfast.conf": "", "y/b_holdfast.conf": "", "z-holdfast.conflist": "", "x/50.conf": "{", "y/99-holdfast.conf/x": ""}, containerd, chaining.ByDropin,
			map[string]string{bridgeOnly: dropin},
		},
		"from drop-in to ConfigMap, not yet there": {map[string]string{"05-c.conflist": bridgeList, "pods/99-holdfast.conf": dropin}, containerd, chaining.ByCilium, map[string]string{bridgeOnly: dropin}},
		"from drop-in to ConfigMap, there":         {map[string]string{"05-c.conflist": strings.Replace(chainedBy, ours, staleOurs, 1), "pods/99-holdfast.conf": dropin}, containerd, chaining.ByCilium, none},
	} {
		t.Run(name, func(t *testing.T) {
			root := host(c.files)
			entry := mustEntry(t, ours)
			change, err := read(t, root).Change(c.runtime, c.strategy, entry)
			if err != nil {
				t.Fatal(err)
			}
			then := after(root, change)
			own, foreign := ownFiles(then)
			if diff := cmp.Diff(c.want, own); diff != "" {
				t.Error(diff)
			}
			_, before := ownFiles(root)
			if diff := cmp.Diff(before, foreign); diff != "" {
				t.Errorf("foreign files: %s", diff)
			}
			d := read(t, then)
			if again, err := d.Change(c.runtime, c.strategy, entry); err != nil || !again.Empty() {
				t.Errorf("again: %+v, %v", again, err)
			}
			if len(c.want) > 0 && c.strategy != chaining.ByCilium && d.Primary(c.runtime).Err == nil {
				loaded := d.Load(c.runtime)
				if v := chaining.Check(loaded.List, entry); loaded.Err != nil || v.Reason != chaining.Chained {
					t.Errorf("loaded: %v, %v, %v", loaded.Err, v, loaded.List)
				}
			}
			out, err := d.Change(c.runtime, "", chaining.Entry{})
			if own, _ := ownFiles(after(then, out)); err != nil || len(own) > 0 || len(out.Put) > 0 {
				t.Errorf("taken out: %v, %v", own, err)
			}
		})
	}
}

func inlinedBy(value string) string {
	return strings.Replace(bridgeList, `"name"`, `"loadOnlyInlinedPlugins": `+value+`, "name"`, 1)
}

func TestChangeWritesNothingWhereItCannotChain_G5(t *testing.T) {
	kept := map[string]string{"10-a-holdfast.conflist": chainedBy, "old/99-holdfast.conf": ours}
	for name, c := range map[string]struct {
		files    map[string]string
		runtime  chaining.Runtime
		strategy chaining.Strategy
		kind     error
		want     string
	}{
		"a broken primary":           {map[string]string{"10-a.conflist": "{"}, older, chaining.ByList, chaining.ErrSyntax, "the list to chain to: 10-a.conflist: line 1, column 2: the text ends too early: complete it"},
		"a broken drop-in of others": {map[string]string{"10-a.conflist": bridgeList, "pods/1.conf": "{"}, containerd, chaining.ByDropin, chaining.ErrSyntax, "the list to chain to: pods/1.conf: line 1, column 2: the text ends too early: complete it"},
		"only broken ones": {
			map[string]string{"10-a.conflist": "{"}, crio, chaining.ByList, chaining.ErrNoList, "the list to chain to: no file is valid, and the runtime passes over each",
		},
		"CRI-O's network, broken":  {map[string]string{"10-a.conflist": "{"}, chaining.Runtime{SkipInvalid: true, Network: "pods"}, chaining.ByList, chaining.ErrNoList, "the list to chain to: no valid file has the network \"pods\", which the runtime is told to use"},
		"a type with a path":       {map[string]string{"10-a.conflist": strings.Replace(bridgeList, "bridge", "../x", 1)}, older, chaining.ByList, chaining.ErrInvalid, `the list to chain to: 10-a.conflist: plugins[0].type: starts with ".": give the plugin's file name only`},
		"a duplicate key":          {map[string]string{"10-a.conflist": strings.Replace(bridgeList, "{", `{"name": "x", `, 1)}, older, chaining.ByList, chaining.ErrDuplicateKey, `the list to chain to: 10-a.conflist: line 1, column 15: duplicate key "name": remove one`},
		"10 MiB":                   {map[string]string{"10-a.conflist": bridgeList + strings.Repeat(" ", 10<<20)}, older, chaining.ByList, chaining.ErrTooLarge, "the list to chain to: 10-a.conflist: 1048577 bytes where at most 1048576 are read: give a CNI configuration, nothing else"},
		"no room for the entry":    {map[string]string{"10-a.conflist": bridgeList + strings.Repeat(" ", chaining.MaxSize-len(bridgeList))}, older, chaining.ByList, chaining.ErrTooLarge, "10-a-holdfast.conflist: 1048666 bytes where at most 1048576 are read: give a CNI configuration, nothing else"},
		"no room for a drop-in":    {map[string]string{"10-a.conflist": bridgeList + strings.Repeat(" ", chaining.MaxSize-len(bridgeList))}, containerd, chaining.ByDropin, chaining.ErrTooLarge, "pods/99-holdfast.conf: 1048666 bytes where at most 1048576 are read: give a CNI configuration, nothing else"},
		"a runtime without them":   {map[string]string{"10-a.conflist": bridgeList}, older, chaining.ByDropin, chaining.ErrRefused, "the runtime reads no drop-ins: choose another strategy, or run containerd 2.1 or CRI-O 1.33"},
		"a .conf":                  {map[string]string{"10-a.conf": bridgeConf}, containerd, chaining.ByDropin, chaining.ErrRefused, "10-a.conf is no .conflist, and only to one of those drop-ins are appended: choose another strategy, or correct it"},
		"inlined only":             {map[string]string{"10-a.conflist": inlinedBy("true")}, containerd, chaining.ByDropin, chaining.ErrRefused, "10-a.conflist says loadOnlyInlinedPlugins: choose another strategy, or correct it"},
		"the entry of the list's":  {map[string]string{"10-a.conflist": strings.Replace(chainedBy, ours, staleOurs, 1)}, containerd, chaining.ByDropin, chaining.ErrRefused, "10-a.conflist has an entry of holdfast-cni, which no drop-in can replace: choose another strategy, or correct it"},
		"the entry of a drop-in's": {map[string]string{"10-a.conflist": bridgeList, "pods/1.conf": staleOurs}, containerd, chaining.ByDropin, chaining.ErrRefused, "pods/1.conf has an entry of holdfast-cni, which no drop-in can replace: choose another strategy, or correct it"},
		"a link for a directory":   {map[string]string{"10-a.conflist": bridgeList, "pods": "-> /srv", "/srv/x": ""}, containerd, chaining.ByDropin, chaining.ErrRefused, "the drop-in directory pods is a link, which Holdfast does not write through: choose another strategy, or correct it"},
		"a link to nowhere":        {map[string]string{"10-a.conflist": bridgeList, "pods": "-> /none"}, containerd, chaining.ByDropin, chaining.ErrRefused, "the drop-in directory pods is a link, which Holdfast does not write through: choose another strategy, or correct it"},
		"a file for a directory":   {map[string]string{"10-a.conflist": bridgeList, "pods": ""}, containerd, chaining.ByDropin, chaining.ErrNotFile, "the list to chain to: pods: the network's drop-in directory cannot be read (not a directory): remove it"},
		"no executable": {
			map[string]string{"10-a.conflist": bridgeList}, chaining.Runtime{Dropins: true, Executables: map[string]bool{"bridge": true}}, chaining.ByDropin, chaining.ErrNoPlugins,
			"no executable holdfast-cni: install it into the runtime's bin directory before it is chained",
		},
		"a name with no room":         {map[string]string{strings.Repeat("a", 240) + ".conflist": bridgeList}, older, chaining.ByList, chaining.ErrInvalid, `"` + strings.Repeat("a", 60) + `…" has a name too long to stand beside it: rename the file that it follows`},
		"a drop-in's name, no room":   {map[string]string{"10-a.conflist": bridgeList, "pods/" + strings.Repeat("z", 250) + ".conf": `{"type": "x"}`}, containerd, chaining.ByDropin, chaining.ErrInvalid, `"` + strings.Repeat("z", 60) + `…" has a name too long to stand beside it: rename the file that it follows`},
		"a strategy that there isn't": {map[string]string{"10-a.conflist": bridgeList}, containerd, "magic", chaining.ErrRefused, `no strategy "magic": give cilium, drop-in or list`},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(kept)
			maps.Copy(files, c.files)
			change, err := read(t, host(files)).Change(c.runtime, c.strategy, mustEntry(t, ours))
			if err == nil || err.Error() != c.want || !errors.Is(err, c.kind) || !change.Empty() {
				t.Errorf("%+v, %v", change, err)
			}
		})
	}
	if change, err := read(t, host(map[string]string{"10-a.conflist": bridgeList})).Change(older, chaining.ByList, chaining.Entry{}); err == nil || !change.Empty() {
		t.Errorf("without an entry: %+v, %v", change, err)
	}
}

// A thousand plugins are chained like one, and as many stale entries are taken out in one edit.
func TestChangeBearsAThousandPlugins_G5(t *testing.T) {
	many := func(entry string, n int) fstest.MapFS {
		list := `{"name": "pods", "plugins": [{"type": "x"}` + strings.Repeat(", "+entry, n) + `]}`
		return host(map[string]string{"10-a.conflist": list})
	}
	for _, root := range []fstest.MapFS{many(`{"type": "x"}`, 999), many(`{"type":"holdfast-cni"}`, 20000)} {
		change, err := read(t, root).Change(containerd, chaining.ByList, mustEntry(t, ours))
		if err != nil {
			t.Fatal(err)
		}
		d := read(t, after(root, change))
		if v := chaining.Check(d.Load(containerd).List, mustEntry(t, ours)); v.Reason != chaining.Chained {
			t.Error(v)
		}
	}
}

// Going from what is chained to what is chained, every step between is chained: the entry is never there twice or not at all.
func TestSwitchOfStrategyOpensNoGap_C5_C7(t *testing.T) {
	entry := mustEntry(t, ours)
	for _, files := range []map[string]string{{"10-a.conflist": bridgeList}, {"10-a.conflist": bridgeList, "pods/z.conf": `{"type": "x"}`}} {
		for _, order := range [][]chaining.Strategy{{chaining.ByDropin, chaining.ByList, chaining.ByDropin}, {chaining.ByList, chaining.ByDropin, chaining.ByCilium}} {
			root := host(files)
			for i, s := range order {
				change, err := read(t, root).Change(containerd, s, entry)
				if err != nil {
					t.Fatal(err)
				}
				for at, step := range steps(root, change) {
					loaded := read(t, step).Load(containerd)
					if v := chaining.Check(loaded.List, entry); v.Reason != chaining.Chained {
						t.Errorf("%v, change %d, step %d: %v %v", order, i, at, v.Reason, loaded.Err)
					}
				}
				root = after(root, change)
			}
		}
	}
}

func TestListKeepsThePrimarysModeAndLetsNobodyElseWrite_G2(t *testing.T) {
	for mode, want := range map[fs.FileMode]fs.FileMode{0o600: 0o600, 0o644: 0o644, 0o666: 0o644, 0o755: 0o644, 0o400: 0o600, 0o640: 0o640} {
		root := host(map[string]string{"10-a.conflist": bridgeList})
		root[netd+"/10-a.conflist"].Mode = mode
		change, err := read(t, root).Change(older, chaining.ByList, mustEntry(t, ours))
		if err != nil || change.Put[0].Mode != want {
			t.Errorf("%o: %o, %v", mode, change.Put[0].Mode, err)
		}
	}
	change, err := read(t, host(map[string]string{"10-a.conflist": bridgeList})).Change(containerd, chaining.ByDropin, mustEntry(t, ours))
	if err != nil || change.Put[0].Mode != 0o644 {
		t.Errorf("%+v, %v", change, err)
	}
}

// The entry may be any vendor's: its type decides what is replaced, the files' names are Holdfast's.
func TestChangeTakesAnyEntry_N17(t *testing.T) {
	root := host(map[string]string{"10-a.conflist": strings.Replace(chainedBy, `{"type": "bridge"}`, `{"type": "bridge"}, {"type": "istio-cni"}`, 1)})
	entry := mustEntry(t, `{"type": "istio-cni", "kubernetes": {}}`)
	change, err := read(t, root).Change(older, chaining.ByList, entry)
	if err != nil {
		t.Fatal(err)
	}
	if got := types(read(t, after(root, change)).Load(older).List); !slices.Equal(got, []string{"bridge", "holdfast-cni", "istio-cni"}) {
		t.Error(got)
	}
}

func TestPrimaryIsWhatThereIsWithoutOurFiles_G3(t *testing.T) {
	d := read(t, host(map[string]string{
		"05-x.conflist": "{", "10-a-holdfast.conflist": chainedBy, "10-a.conflist": bridgeList, "pods/99-holdfast.conf": "{", "pods/50.conf": `{"type": "x"}`,
	}))
	if got := said(d, d.Primary(crio)); got != "10-a.conflist bridge@10-a.conflist x@pods/50.conf" || !slices.Equal(d.Primary(crio).Skipped, []int{0}) {
		t.Errorf("%s %v", got, d.Primary(crio).Skipped)
	}
	var own []string
	for _, o := range d.Own {
		own = append(own, o.Name)
	}
	if diff := cmp.Diff([]string{"10-a-holdfast.conflist", "pods/99-holdfast.conf"}, own); diff != "" {
		t.Error(diff)
	}
}

func TestOwnFilesAreKnownByName_G2(t *testing.T) {
	for name, want := range map[string]bool{
		"10-a-holdfast.conflist": true, "-holdfast.conflist": true, "pods/99-holdfast.conf": true, "pods/z_holdfast.conf": true,
		"holdfast.conflist": false, "10-a-holdfast.conf": false, "99-holdfast.conf": false, "z_holdfast.conf": false, "pods/10-a-holdfast.conflist": false,
		"pods/50-holdfast.conf": false, "a/b/99-holdfast.conf": false, "../99-holdfast.conf": false, "./99-holdfast.conf": false, "/99-holdfast.conf": false,
		"a//99-holdfast.conf": false, "": false, "pods/": false,
	} {
		if chaining.IsOwn(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// A file of ours behind a link is named, so that taking it out fails rather than leaves it.
func TestOwnDropinBehindALinkIsNamed_G5(t *testing.T) {
	root := host(map[string]string{"10-a.conflist": bridgeList, "pods": "-> /srv", "/srv/99-holdfast.conf": ours, "stale": "-> /srv"})
	d := read(t, root)
	if change, err := d.Change(containerd, "", chaining.Entry{}); err != nil || !slices.Equal(change.Remove, []string{"pods/99-holdfast.conf"}) {
		t.Errorf("%+v, %v", change, err)
	}
	crowd := host(map[string]string{"10-a.conflist": bridgeList})
	for i := range 5000 {
		crowd[path.Join(netd, strings.Repeat("d", i%250+1)+string(rune('a'+i/250)), "99-holdfast.conf")] = &fstest.MapFile{}
	}
	if got := len(read(t, crowd).Own); got != 256 {
		t.Errorf("%d own files among 5000 directories", got)
	}
}
