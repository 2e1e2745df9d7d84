package adopt

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newStore(t *testing.T) (Store, Request) {
	t.Helper()
	boot, err := Boot()
	if err != nil {
		t.Skipf("needs Linux: %v", err)
	}
	r := aRequest()
	r.Boot = boot
	return Store{filepath.Join(t.TempDir(), "holdfast", "pods")}, r
}

// N12.
func TestStateIsKeptForRootAlone(t *testing.T) {
	s, r := newStore(t)
	if err := s.Write(r); err != nil {
		t.Fatal(err)
	}
	got, err := s.Read("c1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]os.FileMode{filepath.Dir(s.Folder): 0o700, s.Folder: 0o700, s.path("c1"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	if entries, _ := os.ReadDir(s.Folder); len(entries) != 1 {
		t.Errorf("left beside the file: %v", entries)
	}
	for range 2 {
		if err := s.Remove("c1"); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Read("c1"); !errors.Is(err, ErrNoState) {
		t.Errorf("after its removal: %v", err)
	}
}

// I1: what is on disk is believed only if it is of this container and of this boot.
func TestStateThatIsNotBelieved(t *testing.T) {
	s, r := newStore(t)
	otherBoot, otherID := r, r
	otherBoot.Boot = "00000000-0000-0000-0000-000000000000"
	otherID.ContainerID = "c2"
	tests := map[string]struct {
		put  func(path string, whole []byte) error
		want error
	}{
		"truncated":      {func(p string, w []byte) error { return os.WriteFile(p, w[:len(w)/2], 0o600) }, ErrState},
		"empty":          {func(p string, _ []byte) error { return os.WriteFile(p, nil, 0o600) }, ErrState},
		"more follows":   {func(p string, w []byte) error { return os.WriteFile(p, append(w, "{}"...), 0o600) }, ErrState},
		"too long":       {func(p string, _ []byte) error { return os.WriteFile(p, make([]byte, maxRequest+1), 0o600) }, ErrState},
		"a link":         {func(p string, _ []byte) error { return os.Symlink("/dev/zero", p) }, ErrState},
		"a folder":       {func(p string, _ []byte) error { return os.Mkdir(p, 0o700) }, ErrState},
		"of another":     {func(p string, _ []byte) error { return os.WriteFile(p, marshal(t, otherID), 0o600) }, ErrState},
		"of before boot": {func(p string, _ []byte) error { return os.WriteFile(p, marshal(t, otherBoot), 0o600) }, ErrOtherBoot},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := Store{filepath.Join(t.TempDir(), "pods")}
			if err := s.Write(r); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(s.path("c1")); err != nil {
				t.Fatal(err)
			}
			if err := test.put(s.path("c1"), marshal(t, r)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Read("c1"); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	if _, err := s.Read("../c1"); !errors.Is(err, ErrState) {
		t.Errorf("an id with a slash: %v", err)
	}
	if err := r.In(r.Device, r.Inode+1); !errors.Is(err, ErrOtherNamespace) {
		t.Errorf("another namespace: %v", err)
	}
	if err := r.In(r.Device, r.Inode); err != nil {
		t.Errorf("the same namespace: %v", err)
	}
}

// keepAll writes the state of each container, as it is told.
func keepAll(t *testing.T, s Store, r Request, of map[string]func(*Request)) {
	t.Helper()
	for id, change := range of {
		r := r
		r.ContainerID = id
		change(&r)
		if err := s.Write(r); err != nil {
			t.Fatal(err)
		}
	}
}

// N12.
func TestKeepForgetsTheOthersOfItsNetwork(t *testing.T) {
	s, r := newStore(t)
	if err := s.Keep("cilium", nil); err != nil {
		t.Errorf("without a folder: %v", err)
	}
	keepAll(t, s, r, map[string]func(*Request){
		"valid": func(*Request) {}, "ended": func(*Request) {}, "somehow-valid": func(*Request) {},
		"valid-by-another": func(*Request) {},
		"another-network":  func(r *Request) { r.Network = "other" },
		"no-network":       func(r *Request) { r.Network = "" },
		"no-interface":     func(r *Request) { r.IfName = "" },
		"another-boot":     func(r *Request) { r.Boot = "before" },
		"other-of-before":  func(r *Request) { r.Boot, r.Network = "before", "other" },
		"broken":           func(*Request) {},
	})
	if err := os.Truncate(s.path("broken"), 20); err != nil {
		t.Fatal(err)
	}
	old, fresh := filepath.Join(s.Folder, ".new-1"), filepath.Join(s.Folder, ".new-2")
	long := time.Now().Add(-time.Hour)
	if err := errors.Join(os.WriteFile(old, nil, 0o600), os.WriteFile(fresh, nil, 0o600), os.Chtimes(old, long, long)); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep("cilium", map[Attachment]bool{{"valid", "eth0"}: true, {"valid-by-another", "eth1"}: true, {ContainerID: "somehow-valid"}: true}); err != nil {
		t.Fatal(err)
	}
	want := []string{"another-network", "broken", "no-interface", "no-network", "other-of-before", "somehow-valid", "valid"}
	if ids, err := s.IDs(); err != nil || !cmp.Equal(ids, want) {
		t.Errorf("got %v, %v", ids, err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what a killed writer left is still there")
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error("what a writer may still be at is gone")
	}
}

// N12.
func TestForgetIsOfOneInterface(t *testing.T) {
	tests := map[string]struct {
		change func(*Request)
		ifName string
		kept   bool
		err    error
	}{
		"its own":            {func(*Request) {}, "eth0", false, nil},
		"its own, of before": {func(r *Request) { r.Boot = "before" }, "eth0", false, nil},
		"another":            {func(*Request) {}, "eth1", true, nil},
		"of none":            {func(*Request) {}, "", true, ErrWhose},
		"nobody's":           {func(r *Request) { r.IfName = "" }, "eth0", true, ErrWhose},
		"nobody's, of none":  {func(r *Request) { r.IfName = "" }, "", true, ErrWhose},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, r := newStore(t)
			if err := s.Forget(Attachment{"c1", test.ifName}); err != nil {
				t.Errorf("what was never kept: %v", err)
			}
			keepAll(t, s, r, map[string]func(*Request){"c1": test.change})
			if err := s.Forget(Attachment{"c1", test.ifName}); !errors.Is(err, test.err) {
				t.Errorf("got %v, want %v", err, test.err)
			}
			if ids, err := s.IDs(); err != nil || (len(ids) == 1) != test.kept {
				t.Errorf("kept %v, %v", ids, err)
			}
		})
	}
}

// I1.
func TestFoldersThatAreNotRootsAlone(t *testing.T) {
	s, r := newStore(t)
	root := filepath.Dir(s.Folder)
	if err := os.Symlink(t.TempDir(), root); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(r); !errors.Is(err, ErrUnsafe) {
		t.Errorf("a link: %v", err)
	}
	if err := errors.Join(os.Remove(root), os.Mkdir(root, 0o777), os.Chmod(root, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(r); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a folder that was open: %v, %v", info.Mode(), err)
	}
}

func marshal(t *testing.T, r Request) []byte {
	t.Helper()
	encoded, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return encoded.data
}
