package store_test

//lint:file-ignore SA1019 libcni calls .conf files deprecated; runtimes still load them, so it stays the oracle.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
)

const nodes = "../../e2e/testdata/nodes"

// Every node's directory, with every strategy that can work there and every kind of runtime: chained afterwards, to libcni as to us; no
// foreign byte changed; and after taking out the directory is what it was.
func TestEveryNodeDirectoryIsChainedAndGivenBack_G1_G2_G3(t *testing.T) {
	text, err := os.ReadFile(nodes + "/plugin.json")
	must(t, err)
	entry, err := chaining.ParseEntry(text)
	must(t, err)
	runtimes := map[string]chaining.Runtime{
		"containerd": {Dropins: true}, "containerd before drop-ins": {}, "CRI-O": {SkipInvalid: true, Dropins: true}, "CRI-O before drop-ins": {SkipInvalid: true},
	}
	chained, refused := 0, 0
	for _, dir := range confDirs(t) {
		for name, runtime := range runtimes {
			for _, strategy := range []chaining.Strategy{chaining.ByDropin, chaining.ByList} {
				t.Run(strings.TrimPrefix(dir, nodes+"/")+" "+name+" "+string(strategy), func(t *testing.T) {
					node := cleared(t, dir)
					before := tree(t, node)
					d := readNode(t, node)
					change, err := d.Change(runtime, strategy, entry)
					if err != nil {
						if no := runtime.Dropins && d.NoDropins(runtime, entry.Type()) == ""; errors.Is(err, chaining.ErrRefused) && (strategy == chaining.ByList || no) {
							t.Error(err)
						}
						refused++
						return
					}
					must(t, store.Apply(node, change))
					if d = readNode(t, node); d.Primary(runtime).Err == nil {
						chainedNow(t, node, d, runtime, entry)
						chained++
					}
					withoutOurs := tree(t, node)
					for _, own := range d.Own {
						delete(withoutOurs, own.Name)
						if parent := filepath.Dir(own.Name) + "/"; before[parent] == "" {
							delete(withoutOurs, parent)
						}
					}
					if diff := cmp.Diff(before, withoutOurs); diff != "" {
						t.Errorf("foreign: %s", diff)
					}
					out, err := d.Change(runtime, "", chaining.Entry{})
					must(t, err)
					must(t, store.Apply(node, out))
					if diff := cmp.Diff(before, tree(t, node)); diff != "" {
						t.Errorf("taken out: %s", diff)
					}
				})
			}
		}
	}
	t.Logf("figure: %d directories × runtime × strategy chained and given back, %d closed with a reason", chained, refused)
	if chained < 120 {
		t.Errorf("only %d chained", chained)
	}
}

func chainedNow(t *testing.T, dir string, d chaining.Directory, runtime chaining.Runtime, entry chaining.Entry) {
	t.Helper()
	loaded := d.Load(runtime)
	if v := chaining.Check(loaded.List, entry); loaded.Err != nil || v.Reason != chaining.Chained {
		t.Errorf("%v %v", v, loaded.Err)
		return
	}
	var types []string
	for _, p := range loaded.List.Plugins() {
		types = append(types, p.Type())
	}
	if diff := cmp.Diff(types, libcniLoads(t, dir, d.Files[loaded.At].Name, runtime.Dropins)); diff != "" {
		t.Errorf("libcni: %s", diff)
	}
}

// libcniLoads is the types that libcni reads from a file; before v1.3.0 it read no drop-ins.
func libcniLoads(t *testing.T, dir, name string, dropins bool) []string {
	t.Helper()
	path := filepath.Join(dir, name)
	var list *libcni.NetworkConfigList
	var err error
	switch {
	case filepath.Ext(name) != ".conflist":
		var conf *libcni.PluginConfig
		if conf, err = libcni.ConfFromFile(path); err == nil {
			list, err = libcni.ConfListFromConf(conf)
		}
	case dropins:
		list, err = libcni.ConfListFromFile(path)
	default:
		var data []byte
		if data, err = os.ReadFile(path); err == nil {
			list, err = libcni.ConfListFromBytes(data)
		}
	}
	must(t, err)
	var types []string
	for _, p := range list.Plugins {
		types = append(types, p.Network.Type)
	}
	return types
}

// confDirs are the directories with configuration in them. That of "links" leads out of itself by absolute links, which only a
// runtime on that node can follow.
func confDirs(t *testing.T) []string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(nodes, func(path string, e fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if err == nil && e.IsDir() && (name == "net.d" || name == "cni-network") && !strings.Contains(path, "/links/") {
			all = append(all, path)
			return fs.SkipDir
		}
		return err
	}))
	return all
}

// cleared is a copy without our files.
func cleared(t *testing.T, dir string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), netd)
	must(t, os.CopyFS(at, os.DirFS(dir)))
	out, err := readNode(t, at).Change(chaining.Runtime{Dropins: true}, "", chaining.Entry{})
	must(t, err)
	must(t, store.Apply(at, out))
	if own := readNode(t, at).Own; len(own) > 0 {
		t.Fatal(own)
	}
	return at
}

func readNode(t *testing.T, dir string) chaining.Directory {
	t.Helper()
	d, err := chaining.ReadDirectory(os.DirFS(strings.TrimSuffix(dir, netd)), netd)
	must(t, err)
	return d
}
