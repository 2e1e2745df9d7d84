package chaining_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

// Whatever a directory holds: what libcni loads before a change it loads after each of its steps, the result is chained, no
// foreign byte is changed, a second change is empty, and taking out leaves what was there without us.
func FuzzChange(f *testing.F) {
	for _, seed := range append(seeds, "{", bridgeList, bridgeConf, chainedBy, inlined) {
		f.Add("10-a.conflist", []byte(seed), "20-b.conf", []byte(bridgeConf), "pods/50.conf", []byte(ours), []byte(ours), byte(0))
		f.Add("10-a.conf", []byte(bridgeConf), "20-b.conflist", []byte(seed), "pods/z.conf", []byte(`{"type": "x"}`), []byte(ours), byte(1))
		f.Add("10-a.conflist", []byte(bridgeList), "10-a-holdfast.conflist", []byte(seed), "pods/99-holdfast.conf", []byte(seed), []byte(ours), byte(2))
		f.Add("10-a-holdfast.conflist", []byte(seed), "10-a.conflist", []byte(bridgeList), "other/99-holdfast.conf", []byte(seed), []byte(staleOurs), byte(7))
	}
	f.Fuzz(func(t *testing.T, firstName string, first []byte, secondName string, second []byte, dropinName string, dropin, text []byte, kind byte) {
		entry, err := chaining.ParseEntry(text)
		if err != nil {
			return
		}
		root := t.TempDir()
		dir := filepath.Join(root, netd)
		for name, data := range map[string][]byte{firstName: first, secondName: second, dropinName: dropin} {
			path := filepath.Join(dir, name)
			if !filepath.IsLocal(name) || os.MkdirAll(filepath.Dir(path), 0o700) != nil || os.WriteFile(path, data, 0o600) != nil {
				return // a name that no file can have
			}
		}
		runtime := chaining.Runtime{Dropins: true, SkipInvalid: kind&1 != 0} // the oracle is a libcni that reads drop-ins
		strategy := []chaining.Strategy{chaining.ByDropin, chaining.ByList, chaining.ByCilium, ""}[kind>>1&3]
		d := readAt(t, root)
		change, err := d.Change(runtime, strategy, entry)
		if err != nil {
			if !change.Empty() {
				t.Fatalf("%+v, and %v", change, err)
			}
			return
		}
		before := foreignIn(t, dir)
		_, loads := oracle(t, dir, runtime.SkipInvalid)
		primary := d.Primary(runtime)
		carryOut(t, dir, change, func() {
			if file, list := oracle(t, dir, runtime.SkipInvalid); loads != nil && list == nil && primary.Err == nil {
				t.Fatalf("libcni loaded it, and then refuses %q after %+v", file, change)
			}
		})
		if diff := cmp.Diff(before, foreignIn(t, dir)); diff != "" {
			t.Fatalf("foreign files: %s", diff)
		}
		d = readAt(t, root)
		if again, err := d.Change(runtime, strategy, entry); err != nil || !again.Empty() {
			t.Fatalf("again: %+v, %v", again, err)
		}
		if strategy != "" && strategy != chaining.ByCilium && primary.Err == nil {
			agrees(t, dir, d, runtime)
			loaded := d.Load(runtime)
			if v := chaining.Check(loaded.List, entry); v.Reason != chaining.Chained {
				t.Fatalf("%v %v: %q", v, loaded.Err, loaded.List.Bytes())
			}
		}
	})
}

func readAt(t *testing.T, root string) chaining.Directory {
	t.Helper()
	d, err := chaining.ReadDirectory(os.DirFS(root), netd)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// carryOut does what package store does, without being durable.
func carryOut(t *testing.T, dir string, c chaining.Change, each func()) {
	t.Helper()
	for _, put := range c.Put {
		path := filepath.Join(dir, put.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, put.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		each()
	}
	for _, name := range c.Remove {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		each()
	}
}

// foreignIn are the files that are not Holdfast's own.
func foreignIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		if err != nil || e.IsDir() || chaining.IsOwn(name) {
			return err
		}
		data, err := os.ReadFile(path)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
