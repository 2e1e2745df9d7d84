package crash_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
	"github.com/holdfast-cni/holdfast/e2e/crash"
)

const (
	entry = `{"type":"holdfast-cni","resolvers":["10.96.0.10"]}`
	list  = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge"}]}`
)

// TestMain is also the process that is killed: it carries a strategy out in a directory.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "carry-out" {
		runtime.GC() // threads come and go
		if err := carryOut(os.Args[2], chaining.Strategy(os.Args[3])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func carryOut(dir string, s chaining.Strategy) error {
	e, err := chaining.ParseEntry([]byte(entry))
	if err != nil {
		return err
	}
	d, err := chaining.ReadDirectory(os.DirFS(filepath.Dir(dir)), filepath.Base(dir))
	if err != nil {
		return err
	}
	change, err := d.Change(chaining.Runtime{Dropins: true}, s, e)
	if err != nil {
		return err
	}
	return store.Apply(dir, change)
}

// The store alone, killed at every call, without power after every call, and with every call failing.
func TestStoreHoldsTheOldOrTheNewState_G5(t *testing.T) {
	dir, scratch := realDir(t), realDir(t)
	stops, replays, faults := 0, 0, 0
	for _, from := range []chaining.Strategy{"", chaining.ByDropin, chaining.ByList} {
		for _, to := range []chaining.Strategy{"", chaining.ByDropin, chaining.ByList} {
			if from == to {
				continue
			}
			name := fmt.Sprintf("%q to %q", from, to)
			old := stateOf(t, scratch, from)
			judge, err := crash.NewJudge(old, stateOf(t, scratch, to), scratch)
			must(t, err)
			var ops []crash.Op
			calls := trace(t, dir, judge, to, func(stop crash.Stop) crash.Action {
				if stop.After && stop.Err == nil {
					ops = append(ops, stop.Op)
				}
				return crash.Action{}
			})
			for at := 1; at <= calls; at++ {
				for _, after := range []bool{false, true} {
					stops++
					trace(t, dir, judge, to, func(stop crash.Stop) crash.Action {
						return crash.Action{Kill: stop.Call == at && stop.After == after}
					})
				}
				for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
					if crash.CanFail {
						faults++
						trace(t, dir, judge, to, func(stop crash.Stop) crash.Action {
							if stop.Call == at && !stop.After {
								return crash.Action{Fail: errno}
							}
							return crash.Action{}
						})
					}
				}
			}
			disk := crash.NewDisk(old)
			for i, op := range ops {
				op.Path, op.To = strings.TrimPrefix(op.Path, dir), strings.TrimPrefix(op.To, dir)
				must(t, disk.Do(op))
				for _, lost := range disk.Lost() {
					replays++
					must(t, lost.Write(scratch))
					if err := judge.Directory(scratch); err != nil {
						t.Errorf("%s: the power lost after operation %d, %s %s: %v", name, i+1, op.Kind, op.Path, err)
					}
				}
			}
			for _, lost := range append(disk.Lost(), disk.Now()) {
				if !lost.Equal(judge.New) {
					t.Errorf("%s: the recorded operations end in %v", name, lost)
				}
			}
		}
	}
	t.Logf("figure: %d stops, %d faults, %d replays of a power loss", stops, faults, replays)
}

// trace runs one transition from its old state, judges what is left, and returns how many calls there were.
func trace(t *testing.T, dir string, judge *crash.Judge, to chaining.Strategy, visit func(crash.Stop) crash.Action) (calls int) {
	t.Helper()
	must(t, judge.Old.Write(dir))
	output, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(t, err)
	defer output.Close()
	var at crash.Stop
	err = crash.Trace(context.Background(), crash.Process{Args: []string{os.Args[0], "carry-out", dir, string(to)}, Output: output, Dirs: []string{dir}}, func(stop crash.Stop) crash.Action {
		at, calls = stop, max(calls, stop.Call)
		return visit(stop)
	})
	if err != nil {
		if strings.Contains(err.Error(), "operation not permitted") {
			t.Skipf("cannot trace here: %v", err)
		}
		t.Fatal(err)
	}
	if err := judge.Directory(dir); err != nil {
		t.Errorf("to %q, last at %+v: %v", to, at, err)
	}
	return calls
}

// stateOf is the directory with a strategy carried out.
func stateOf(t *testing.T, scratch string, s chaining.Strategy) crash.Tree {
	t.Helper()
	must(t, crash.Tree{"10-a.conflist": {Data: []byte(list), Mode: 0o644}, "pods": {Mode: fs.ModeDir | 0o755}, "pods/zz.conf": {Data: []byte(`{"type":"x"}`), Mode: 0o644}}.Write(scratch))
	must(t, carryOut(scratch, s))
	tree, err := crash.Read(scratch)
	must(t, err)
	return tree
}

func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
