package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
)

// mounted is a small file system of its own, gone after the test.
func mounted(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, 0)) })
	return dir
}

// On a full disk the old state stays, whole, and nothing is left over.
func TestFullDiskLeavesTheOldState_G5(t *testing.T) {
	const page = 4096
	big := chaining.Put{Name: "10-a-holdfast.conflist", Mode: 0o600, Data: []byte(strings.Repeat("x", 3*page))}
	for room := range 3 { // pages left
		dir := mounted(t, fmt.Sprintf("size=%d", 8*page))
		must(t, store.Apply(dir, chaining.Change{Put: []chaining.Put{put("10-a-holdfast.conflist"), put("old/99-holdfast.conf")}}))
		must(t, os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, (6-room)*page), 0o600))
		before := tree(t, dir)
		late := big
		late.Name = "new/99-holdfast.conf"
		for _, c := range []chaining.Change{{Put: []chaining.Put{big}, Remove: []string{"old/99-holdfast.conf"}}, {Put: []chaining.Put{late}, Remove: []string{"10-a-holdfast.conflist"}}} {
			err := store.Apply(dir, c)
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left on device: free space or inodes on the file system that holds it") {
				t.Errorf("%d pages left: %v", room, err)
			}
		}
		if err := store.InstallBinary(dir, "holdfast-cni", strings.NewReader(string(big.Data))); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d pages left: %v", room, err)
		}
		if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
			t.Errorf("%d pages left: %s", room, diff)
		}
	}
}

// So where there are no inodes left, for a file or for the directory before it.
func TestFullInodesLeaveTheOldState_G5(t *testing.T) {
	for free := range 2 {
		dir := mounted(t, fmt.Sprintf("size=1m,nr_inodes=%d", 3+free))
		must(t, store.Apply(dir, chaining.Change{Put: []chaining.Put{put("10-a-holdfast.conflist")}}))
		must(t, os.WriteFile(filepath.Join(dir, "ballast"), nil, 0o600))
		before := tree(t, dir)
		err := store.Apply(dir, chaining.Change{Put: []chaining.Put{put("pods/99-holdfast.conf")}, Remove: []string{"10-a-holdfast.conflist"}})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d inodes left: %v", free, err)
		}
		if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
			t.Errorf("%d inodes left: %s", free, diff)
		}
	}
}

func TestReadOnlyDirectoryIsNamedWithItsFix_G5(t *testing.T) {
	dir := mounted(t, "size=1m")
	must(t, store.Apply(dir, chaining.Change{Put: []chaining.Put{put("10-a-holdfast.conflist"), put("pods/99-holdfast.conf")}}))
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	before := tree(t, dir)
	acts := map[string]error{
		"write":          store.Apply(dir, chaining.Change{Put: []chaining.Put{put("10-a-holdfast.conflist")}}),
		"make directory": store.Apply(dir, chaining.Change{Put: []chaining.Put{put("new/99-holdfast.conf")}}),
		"remove":         store.Apply(dir, chaining.Change{Remove: []string{"10-a-holdfast.conflist"}}),
		"create":         store.Nudge(dir),
	}
	for act, err := range acts {
		if !errors.Is(err, syscall.EROFS) || !strings.HasPrefix(err.Error(), act+` "`+dir) || !strings.Contains(err.Error(), "read-only file system: mount the file system read-write") {
			t.Errorf("%s: %v", act, err)
		}
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}
