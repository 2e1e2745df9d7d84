package crash_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
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

// run is one change of strategy in a directory.
type run struct {
	arm, dir, scratch string
	to                chaining.Strategy
	judge             *crash.Judge
	calls             int
	ops               []crash.Op
}

// The store alone, killed at every call, without power after every call, and with every call failing.
func TestStoreHoldsTheOldOrTheNewState_G5(t *testing.T) {
	dir, scratch := realDir(t), realDir(t)
	arm := filepath.Join(t.TempDir(), "arm")
	if out, err := exec.Command("go", "build", "-o", arm, "./arm").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	foreign := crash.Tree{"pods": {Mode: fs.ModeDir | 0o755}, "pods/zz.conf": {Data: []byte(`{"type":"x"}`), Mode: 0o644}}
	for name, others := range map[string]crash.Tree{"alone": {}, "beside a drop-in of somebody's": foreign} {
		for _, from := range []chaining.Strategy{"", chaining.ByDropin, chaining.ByList} {
			for _, to := range []chaining.Strategy{"", chaining.ByDropin, chaining.ByList} {
				if from == to {
					continue
				}
				t.Run(fmt.Sprintf("%q to %q %s", from, to, name), func(t *testing.T) {
					judge, err := crash.NewJudge(stateOf(t, scratch, others, from), stateOf(t, scratch, others, to), scratch)
					must(t, err)
					r := &run{arm: arm, dir: dir, scratch: scratch, to: to, judge: judge}
					r.undisturbed(t)
					r.stopped(t)
					r.lostPower(t)
				})
			}
		}
	}
}

// undisturbed records what is done.
func (r *run) undisturbed(t *testing.T) {
	t.Helper()
	r.trace(t, func(stop crash.Stop) crash.Action {
		r.calls = max(r.calls, stop.Call)
		if stop.After && stop.Err == nil {
			r.ops = append(r.ops, stop.Op)
		}
		return crash.Action{}
	})
}

// stopped kills the process before and after each call, and has each call fail.
func (r *run) stopped(t *testing.T) {
	t.Helper()
	for at := 1; at <= r.calls; at++ {
		for _, after := range []bool{false, true} {
			r.trace(t, func(stop crash.Stop) crash.Action {
				return crash.Action{Kill: stop.Call == at && stop.After == after}
			})
		}
		if !crash.CanFail {
			continue
		}
		errno := []syscall.Errno{syscall.EIO, syscall.ENOSPC}[at%2]
		r.trace(t, func(stop crash.Stop) crash.Action {
			if stop.Call == at && !stop.After {
				return crash.Action{Fail: errno}
			}
			return crash.Action{}
		})
	}
}

// lostPower replays what was recorded.
func (r *run) lostPower(t *testing.T) {
	t.Helper()
	disk := crash.NewDisk(r.judge.Old)
	for i, op := range r.ops {
		op.Path, op.To = strings.TrimPrefix(op.Path, r.dir), strings.TrimPrefix(op.To, r.dir)
		must(t, disk.Do(op))
		for _, lost := range disk.Lost() {
			must(t, lost.Write(r.scratch))
			if err := r.judge.Directory(r.scratch); err != nil {
				t.Errorf("the power lost after operation %d, %s %s: %v", i+1, op.Kind, op.Path, err)
			}
		}
	}
	for _, lost := range append(disk.Lost(), disk.Now()) {
		if !lost.Equal(r.judge.New) {
			t.Errorf("the recorded operations end in %v", lost)
		}
	}
}

// trace goes through it from the old state, and judges what is left.
func (r *run) trace(t *testing.T, visit func(crash.Stop) crash.Action) {
	t.Helper()
	must(t, r.judge.Old.Write(r.dir))
	output, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(t, err)
	defer output.Close()
	var at crash.Stop
	p := crash.Process{Arm: r.arm, Args: []string{os.Args[0], "carry-out", r.dir, string(r.to)}, Output: output, Dirs: []string{r.dir}}
	err = crash.Trace(context.Background(), p, func(stop crash.Stop) crash.Action {
		at = stop
		return visit(stop)
	})
	if err != nil {
		if strings.Contains(err.Error(), "operation not permitted") {
			t.Skipf("cannot trace here: %v", err)
		}
		t.Fatal(err)
	}
	if err := r.judge.Directory(r.dir); err != nil {
		t.Errorf("last at %+v: %v", at, err)
	}
}

// stateOf is the directory with a strategy carried out.
func stateOf(t *testing.T, scratch string, others crash.Tree, s chaining.Strategy) crash.Tree {
	t.Helper()
	files := crash.Tree{"10-a.conflist": {Data: []byte(list), Mode: 0o644}}
	maps.Copy(files, others)
	must(t, files.Write(scratch))
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
