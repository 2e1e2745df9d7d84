package crash_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-cni/holdfast/e2e/crash"
)

// texts are what the trees hold, each as name=text.
func texts(trees []crash.Tree) map[string]bool {
	all := map[string]bool{}
	for _, t := range trees {
		said := ""
		for _, name := range []string{"d", "d/a", "d/b", "d/t"} {
			if f, there := t[name]; there && !f.Mode.IsDir() {
				said += name + "=" + string(f.Data) + " "
			}
		}
		all[said] = true
	}
	return all
}

func do(t *testing.T, d *crash.Disk, ops ...crash.Op) {
	t.Helper()
	for _, op := range ops {
		if err := d.Do(op); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPowerLossLeavesWhatWasSyncedAndAnyOfTheRest(t *testing.T) {
	d := crash.NewDisk(crash.Tree{"d": {Mode: 1<<31 | 0o755}, "d/a": {Data: []byte("old"), Mode: 0o600}})
	create := crash.Op{Kind: crash.Create, Path: "/d/t"}
	write := crash.Op{Kind: crash.Content, Path: "/d/t", Data: []byte("new!")}
	rename := crash.Op{Kind: crash.Rename, Path: "/d/t", To: "/d/a"}

	do(t, d, create, write)
	if diff := cmp.Diff(map[string]bool{"d/a=old ": true, "d/a=old d/t= ": true, "d/a=old d/t=new! ": true, "d/a=old d/t=ne ": true, "d/a=old d/t=\x00\x00\x00\x00 ": true}, texts(d.Lost())); diff != "" {
		t.Error(diff)
	}
	do(t, d, rename) // without a sync of the file: the old one may be gone, and the new one never have come
	if lost := texts(d.Lost()); !lost["d/a= "] || !lost["d/a=\x00\x00\x00\x00 "] {
		t.Error(lost)
	}
	do(t, d, crash.Op{Kind: crash.Sync, Path: "/d/a"}) // of the file, not of its names
	if diff := cmp.Diff(map[string]bool{"d/a=old ": true, "d/a=old d/t=new! ": true, "d/a=new! ": true}, texts(d.Lost())); diff != "" {
		t.Error(diff)
	}
	do(t, d, crash.Op{Kind: crash.Sync, Path: "/d"})
	if diff := cmp.Diff(map[string]bool{"d/a=new! ": true}, texts(d.Lost())); diff != "" {
		t.Error(diff)
	}
	do(t, d, crash.Op{Kind: crash.Remove, Path: "/d/a"})
	if diff := cmp.Diff(map[string]bool{"d/a=new! ": true, "": true}, texts(d.Lost())); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"": true}, texts([]crash.Tree{d.Now()})); diff != "" {
		t.Error(diff)
	}
}

func TestPowerLossTakesADirectoryWithWhatIsInIt(t *testing.T) {
	d := crash.NewDisk(crash.Tree{})
	do(t, d, crash.Op{Kind: crash.Mkdir, Path: "/d"}, crash.Op{Kind: crash.Create, Path: "/d/a", Data: []byte("x")},
		crash.Op{Kind: crash.Sync, Path: "/d/a"}, crash.Op{Kind: crash.Sync, Path: "/d"})
	if diff := cmp.Diff(map[string]bool{"": true, "d/a=x ": true}, texts(d.Lost())); diff != "" {
		t.Error(diff)
	}
}
