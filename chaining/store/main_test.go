package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-cni/holdfast/chaining"
)

const (
	netd       = "etc/cni/net.d"
	bridgeList = `{"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "bridge"}]}`
	ours       = `{"type": "holdfast-cni", "resolvers": ["10.96.0.10"]}`
)

// confDir makes a configuration directory of files; a name that ends in "/" is a directory.
func confDir(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), netd)
	must(t, os.MkdirAll(dir, 0o755))
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if name[len(name)-1] == '/' {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// tree is all that is in a directory: "name/" for directories, "-> target" for links, "mode text" for files.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			all[name+"/"] = info.Mode().String()
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			all[name] = "-> " + target
			return err
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			all[name] = info.Mode().String() + " " + string(data)
			return err
		}
		return nil
	}))
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(name string) chaining.Put { return chaining.Put{Name: name, Mode: 0o644, Data: []byte(ours)} }
