package chaining_test

//lint:file-ignore SA1019 libcni calls .conf files deprecated; runtimes still load them, so it stays the oracle.

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

// oracle is what go-cni (loadFromConfDir) and, with skip, ocicni (loadNetworks) load with libcni v1.3.1; nil: nothing.
func oracle(t *testing.T, dir string, skip bool) (file string, list *libcni.NetworkConfigList) {
	t.Helper()
	files, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	for _, file := range files {
		if strings.HasSuffix(file, ".conflist") {
			list, err = libcni.ConfListFromFile(file)
		} else {
			var conf *libcni.PluginConfig
			if conf, err = libcni.ConfFromFile(file); err == nil {
				list, err = libcni.ConfListFromConf(conf)
			}
		}
		if err == nil && len(list.Plugins) > 0 {
			return filepath.Base(file), list
		}
		if !skip {
			return filepath.Base(file), nil
		}
	}
	return "", nil
}

// Whatever two files and a drop-in hold, the file that counts is the one that libcni would load, and a chain that
// Holdfast accepts is the one that libcni would run.
func FuzzReadDirectory(f *testing.F) {
	for _, seed := range append(seeds, "", "{", bridgeList, bridgeConf, `{"name": "pods"}`, `{"type": "x"}`, `{"name": "a", "name": "b", "plugins": [{"type": "x"}]}`) {
		f.Add("10-a.conflist", []byte(seed), "20-b.conf", []byte(bridgeConf), "pods", []byte(ours))
		f.Add("0\xff.conflist", []byte(bridgeList), "20-b.json", []byte(seed), "pods", []byte(seed))
		f.Add("10-a.conflist", []byte(bridgeList), "20-b.json", []byte(seed), "pods", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, firstName string, first []byte, secondName string, second []byte, network string, dropin []byte) {
		root := t.TempDir()
		dir := filepath.Join(root, netd)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{firstName: first, secondName: second, network + "/50.conf": dropin} {
			if !filepath.IsLocal(name) || len(data) > chaining.MaxSize {
				t.Skip()
			}
			path := filepath.Join(dir, name)
			if os.MkdirAll(filepath.Dir(path), 0o700) != nil || os.WriteFile(path, data, 0o600) != nil {
				t.Skip() // a name that no file can have
			}
		}
		d, err := chaining.ReadDirectory(os.DirFS(root), netd)
		if err != nil {
			t.Fatal(err)
		}
		for _, runtime := range []chaining.Runtime{containerd, crio} {
			agrees(t, dir, d, runtime)
		}
	})
}

func agrees(t *testing.T, dir string, d chaining.Directory, runtime chaining.Runtime) {
	t.Helper()
	file, list := oracle(t, dir, runtime.SkipInvalid)
	loaded := d.Load(runtime)
	counts := ""
	if loaded.At >= 0 {
		counts = d.Files[loaded.At].Name
	}
	switch {
	case errors.Is(loaded.Err, chaining.ErrNotFile):
		return // an [fs.FS] cannot open every name that libcni can; then nothing is passed over
	case counts != file:
		t.Fatalf("%q counts (%v), libcni takes %q", counts, loaded.Err, file)
	case list == nil && loaded.Err == nil:
		t.Fatalf("%q: libcni refuses it", counts)
	case loaded.Err != nil:
		return // stricter
	}
	var want []string
	for _, p := range list.Plugins {
		want = append(want, p.Network.Type)
	}
	if diff := cmp.Diff(want, types(loaded.List)); diff != "" || list.Name != loaded.List.Name() {
		t.Fatalf("%q: %s", counts, diff)
	}
}
