package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
)

func TestApplyDoesWhatTheChangeSays_N2_G2(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := confDir(t, map[string]string{"10-a.conflist": bridgeList, "05-holdfast.conflist": "x", "old/99-holdfast.conf": "x", "mixed/99-holdfast.conf": "x", "mixed/50.conf": "{"})
	must(t, os.Chmod(filepath.Join(dir, "mixed"), 0o755))
	must(t, store.Apply(dir, chaining.Change{
		Put:    []chaining.Put{put("pods/99-holdfast.conf"), {Name: "10-a-holdfast.conflist", Mode: 0o600, Data: []byte(bridgeList)}, put("mixed/z_holdfast.conf")},
		Remove: []string{"05-holdfast.conflist", "old/99-holdfast.conf", "mixed/99-holdfast.conf", "never-holdfast.conflist", "never/99-holdfast.conf"},
	}))
	if diff := cmp.Diff(map[string]string{
		"10-a.conflist": "-rw------- " + bridgeList, "10-a-holdfast.conflist": "-rw------- " + bridgeList, "pods/": "drwxr-xr-x", "pods/99-holdfast.conf": "-rw-r--r-- " + ours,
		"mixed/": "drwxr-xr-x", "mixed/50.conf": "-rw------- {", "mixed/z_holdfast.conf": "-rw-r--r-- " + ours,
	}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// Nothing at all is done, not even what came before in the change.
func TestApplyRefusesWhatIsNotOurs_G2(t *testing.T) {
	for _, name := range []string{"10-a.conflist", "pods/50-holdfast.conf", "../x-holdfast.conflist", "../99-holdfast.conf", "a/b/99-holdfast.conf", "/99-holdfast.conf", "./99-holdfast.conf", "", "pods/../x/99-holdfast.conf"} {
		dir := confDir(t, map[string]string{"10-a.conflist": bridgeList, "b-holdfast.conflist": "x"})
		before := tree(t, dir)
		for _, c := range []chaining.Change{{Put: []chaining.Put{put("a-holdfast.conflist"), put(name)}}, {Put: []chaining.Put{put("a-holdfast.conflist")}, Remove: []string{"b-holdfast.conflist", name}}} {
			if err := store.Apply(dir, c); !errors.Is(err, store.ErrNotOurs) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
			t.Errorf("%q: %s", name, diff)
		}
	}
}

func TestApplyFollowsNoLinks_G5(t *testing.T) {
	elsewhere := t.TempDir()
	must(t, os.WriteFile(filepath.Join(elsewhere, "99-holdfast.conf"), []byte("x"), 0o600))
	dir := confDir(t, map[string]string{"file": "x"})
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "pods")))
	must(t, os.Symlink("../net.d", filepath.Join(dir, "self")))
	before, there := tree(t, dir), tree(t, elsewhere)
	for _, network := range []string{"pods", "self", "file"} {
		for _, c := range []chaining.Change{{Put: []chaining.Put{put(network + "/99-holdfast.conf")}}, {Remove: []string{network + "/99-holdfast.conf"}}} {
			if err := store.Apply(dir, c); !errors.Is(err, store.ErrInTheWay) || !strings.Contains(err.Error(), filepath.Join(dir, network)) {
				t.Errorf("%s: %v", network, err)
			}
		}
	}
	if diff := cmp.Diff(before, tree(t, dir)) + cmp.Diff(there, tree(t, elsewhere)); diff != "" {
		t.Error(diff)
	}
	linked := filepath.Join(t.TempDir(), "net.d")
	must(t, os.Symlink(dir, linked))
	if err := store.Apply(linked, chaining.Change{Put: []chaining.Put{put("a-holdfast.conflist")}}); !errors.Is(err, store.ErrInTheWay) {
		t.Errorf("a link for the directory: %v", err)
	}
}

// The link goes, not what it leads to.
func TestApplyReplacesALinkOfItsOwnName_G2(t *testing.T) {
	dir := confDir(t, map[string]string{"10-a.conflist": bridgeList})
	for _, name := range []string{"10-a-holdfast.conflist", "b-holdfast.conflist"} {
		must(t, os.Symlink("10-a.conflist", filepath.Join(dir, name)))
	}
	must(t, store.Apply(dir, chaining.Change{Put: []chaining.Put{put("10-a-holdfast.conflist")}, Remove: []string{"b-holdfast.conflist"}}))
	if diff := cmp.Diff(map[string]string{"10-a.conflist": "-rw------- " + bridgeList, "10-a-holdfast.conflist": "-rw-r--r-- " + ours}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestADirectoryInThePlaceOfAFileIsAnError_G5(t *testing.T) {
	dir := confDir(t, map[string]string{"10-a-holdfast.conflist/x": "x"})
	before := tree(t, dir)
	err := store.Apply(dir, chaining.Change{Put: []chaining.Put{put("10-a-holdfast.conflist")}})
	if err == nil || !strings.HasPrefix(err.Error(), `put in place "`+dir+`/10-a-holdfast.conflist": `) {
		t.Error(err)
	}
	if err := store.Apply(dir, chaining.Change{Remove: []string{"10-a-holdfast.conflist"}}); err == nil {
		t.Error("a directory was removed")
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestDirectoryThatIsNotThereIsNamed_G5(t *testing.T) {
	err := store.Apply("/none/at/all", chaining.Change{Put: []chaining.Put{put("a-holdfast.conflist")}})
	if !errors.Is(err, os.ErrNotExist) || err.Error() != `open directory "/none/at/all": no such file or directory: see that the directory exists and is mounted into this pod` {
		t.Error(err)
	}
	if err := store.Apply("/none/at/all", chaining.Change{}); err != nil {
		t.Errorf("nothing to do: %v", err)
	}
}

func TestSweepRemovesWhatEarlierLivesLeft_N2(t *testing.T) {
	dir := confDir(t, map[string]string{
		".holdfast-abc.tmp": "x", ".holdfast-nudge": "", "10-a.conflist": bridgeList, ".holdfast-x.conflist": "x", "holdfast-x.tmp": "x",
		"pods/.holdfast-abc.tmp": "x", "other/.holdfast-abc.tmp": "x", "other/50.conf": "{", "empty/": "", "deep/er/.holdfast-abc.tmp": "x", ".holdfast-dir.tmp/": "",
	})
	elsewhere := t.TempDir()
	must(t, os.WriteFile(filepath.Join(elsewhere, ".holdfast-abc.tmp"), nil, 0o600))
	must(t, os.Symlink(elsewhere, filepath.Join(dir, "link")))
	must(t, store.Sweep(dir))
	want := map[string]string{
		"10-a.conflist": "", ".holdfast-x.conflist": "", "holdfast-x.tmp": "", "other/": "", "other/50.conf": "", "empty/": "", "deep/": "", "deep/er/": "",
		"deep/er/.holdfast-abc.tmp": "", ".holdfast-dir.tmp/": "", "link": "",
	}
	have := tree(t, dir)
	for name := range have {
		have[name] = ""
	}
	if diff := cmp.Diff(want, have); diff != "" || len(tree(t, elsewhere)) != 1 {
		t.Error(diff)
	}
}

func TestBinaryIsReplacedWhole_N2(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("/bin/true", filepath.Join(dir, "linked")))
	for range 2 {
		must(t, store.InstallBinary(dir, "holdfast-cni", strings.NewReader("#!x")))
		must(t, store.InstallBinary(dir, "linked", strings.NewReader("#!x")))
	}
	if diff := cmp.Diff(map[string]string{"holdfast-cni": "-rwxr-xr-x #!x", "linked": "-rwxr-xr-x #!x"}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
	broken := errors.New("the source broke")
	if err := store.InstallBinary(dir, "holdfast-cni", &breaks{"half", broken}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"holdfast-cni": "-rwxr-xr-x #!x", "linked": "-rwxr-xr-x #!x"}, tree(t, dir)); diff != "" {
		t.Errorf("after a source that broke: %s", diff)
	}
	for _, name := range []string{"", ".", "..", "a/b", "../a", ".hidden", "a\x00"} {
		if err := store.InstallBinary(dir, name, strings.NewReader("x")); !errors.Is(err, store.ErrNotOurs) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for range 2 {
		must(t, store.RemoveFile(dir, "linked"))
		must(t, store.RemoveFile(dir, "holdfast-cni"))
	}
	if have := tree(t, dir); len(have) != 0 {
		t.Error(have)
	}
}

type breaks struct {
	text string
	err  error
}

func (b *breaks) Read(to []byte) (int, error) {
	n := copy(to, b.text)
	b.text = b.text[n:]
	if n == 0 {
		return 0, b.err
	}
	return n, nil
}

// The nudge is the event of a file that is gone; nothing of it stays.
func TestNudgeIsOneRemoval_C6(t *testing.T) {
	dir := confDir(t, map[string]string{"10-a.conflist": bridgeList})
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	must(t, err)
	defer syscall.Close(fd)
	_, err = syscall.InotifyAddWatch(fd, dir, syscall.IN_DELETE|syscall.IN_CREATE|syscall.IN_MOVE)
	must(t, err)
	must(t, store.Nudge(dir))
	must(t, store.Nudge(dir))
	var buffer [4096]byte
	n, err := syscall.Read(fd, buffer[:])
	must(t, err)
	if got := strings.Count(string(buffer[:n]), ".holdfast-nudge"); got != 4 || len(tree(t, dir)) != 1 {
		t.Errorf("%d events, left: %v", got, tree(t, dir))
	}
}
