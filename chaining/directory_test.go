package chaining_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
)

const netd = "etc/cni/net.d"

// host makes a root of files in the configuration directory; a path from / is one of the root, "-> x" is a link.
func host(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{netd: {Mode: fs.ModeDir}}
	for name, text := range files {
		path := netd + "/" + name
		if after, whole := strings.CutPrefix(name, "/"); whole {
			path = after
		}
		file := &fstest.MapFile{Data: []byte(text)}
		if target, link := strings.CutPrefix(text, "-> "); link {
			file = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
		}
		root[path] = file
	}
	return root
}

func read(t testing.TB, root fs.FS) chaining.Directory {
	t.Helper()
	d, err := chaining.ReadDirectory(root, netd)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	bridgeList = `{"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "bridge"}]}`
	bridgeConf = `{"name": "pods", "cniVersion": "1.0.0", "type": "bridge"}`
)

var (
	containerd = chaining.Runtime{Dropins: true}
	crio       = chaining.Runtime{SkipInvalid: true, Dropins: true}
)

func TestDirectoryHoldsTheFilesARuntimeLooksAtInItsOrder_G1(t *testing.T) {
	d := read(t, host(map[string]string{
		"20-b.conf": bridgeConf, "10-a.conflist": bridgeList, "9-c.json": bridgeConf, ".hidden.conflist": bridgeList, ".conf": bridgeConf,
		"UPPER.CONF": bridgeConf, "30-dir.conflist/x": "", "10-a.conflist.tmp": "{", "kubeconfig": "x", "15-old.conflist.cilium_bak": bridgeList, "16-old.conf.cilium_bak": "{",
		"link.conf": "-> /opt/pods.conf", "/opt/pods.conf": bridgeConf,
	}))
	var names []string
	for _, f := range d.Files {
		names = append(names, f.Name)
		if f.Err != nil || f.Network != "pods" {
			t.Errorf("%s: network %q, error %v", f.Name, f.Network, f.Err)
		}
	}
	if diff := cmp.Diff([]string{".conf", ".hidden.conflist", "10-a.conflist", "20-b.conf", "9-c.json", "link.conf"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]chaining.Renamed{{Name: "15-old.conflist.cilium_bak", Types: []string{"bridge"}}, {Name: "16-old.conf.cilium_bak"}}, d.Renamed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"10-a.conflist.tmp", "UPPER.CONF", "kubeconfig"}, d.Ignored); diff != "" {
		t.Error(diff)
	}
}

func TestDirectoryThatIsNotThereIsEmpty_G3(t *testing.T) {
	d, err := chaining.ReadDirectory(fstest.MapFS{}, netd)
	if err != nil || d.Files != nil {
		t.Errorf("%v, %v", d, err)
	}
	if loaded := d.Load(containerd); loaded.At != -1 || loaded.Err == nil {
		t.Errorf("%+v", loaded)
	}
	if _, err := chaining.ReadDirectory(fstest.MapFS{netd: {}}, netd); err == nil || !strings.Contains(err.Error(), "give the runtime's") {
		t.Errorf("a file for a directory: %v", err)
	}
}

func TestFollowStaysWithinTheRoot_G4(t *testing.T) {
	root := fstest.MapFS{
		"a/link": {Data: []byte("/b/./c/.."), Mode: fs.ModeSymlink}, "b/c/file": {}, "b/up": {Data: []byte("../../../../b/c"), Mode: fs.ModeSymlink},
		"loop": {Data: []byte("loop"), Mode: fs.ModeSymlink},
	}
	for name, want := range map[string]string{"a/link": "b", "a/link/c/file": "b/c/file", "a/link/up/file": "b/c/file", "/b//c/": "b/c", "../../b": "b", ".": "."} {
		if got, err := chaining.Follow(root, name); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"loop", "a/none", "b/c/file/x"} {
		if got, err := chaining.Follow(root, name); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Opening a pipe would block, here and in the runtime.
func TestPipeIsNotOpened_G5(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, netd)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "10-pipe.conflist"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan chaining.Directory, 1)
	go func() { d, _ := chaining.ReadDirectory(os.DirFS(root), netd); done <- d }()
	select {
	case d := <-done:
		if loaded := d.Load(crio); loaded.At != 0 || loaded.Err == nil {
			t.Errorf("%+v", loaded)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("blocked")
	}
}

// Libcni reads it, an fs.FS cannot: the file must not be passed over for another.
func TestNameThatIsNotUTF8Counts_G5(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, netd)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0\xff.conflist", "10-a.conflist"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(bridgeList), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, runtime := range []chaining.Runtime{containerd, crio} {
		if loaded := read(t, os.DirFS(root)).Load(runtime); loaded.At != 0 || loaded.Err == nil || !strings.Contains(loaded.Err.Error(), "not UTF-8") {
			t.Errorf("%+v", loaded)
		}
	}
}
