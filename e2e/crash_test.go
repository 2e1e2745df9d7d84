//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-cni/holdfast/e2e/crash"
)

// No cluster, but a real install-cni, a real containerd and a real API server: what a kill or a power loss leaves at any system
// call of the store.
var _ = describe("install-cni that is killed at any system call", Label(full), Ordered, func() {
	var n *crashNode
	var stops, replays, loads, faults int

	BeforeAll(func(ctx SpecContext) {
		if os.Getuid() != 0 {
			Skip("needs root for containerd")
		}
		n = newCrashNode(ctx)
	}, NodeTimeout(20*time.Minute))

	It("leaves the old or the new state, which libcni and containerd load (G5, N2, issue 4)", func(ctx SpecContext) {
		began := time.Now()
		for _, t := range transitions() {
			if only := os.Getenv("CRASH_ONLY"); !strings.Contains(t.name, only) {
				continue
			}
			By(t.name)
			s := n.record(ctx, t)
			n.killed(ctx, s)
			stops += 2 * s.calls
			r, l := n.lostPower(ctx, s)
			replays, loads = replays+r, loads+l
			GinkgoWriter.Printf("  %d calls, %d replays, %s so far\n", s.calls, r, time.Since(began).Round(time.Second))
		}
		report("install-cni killed at %d stops, all loaded by libcni and containerd; %d replays of a power loss loaded by libcni, %d of them by containerd; in %s",
			stops, replays, loads, time.Since(began).Round(time.Second))
		if os.Getenv("CRASH_ONLY") == "" {
			Expect(stops).To(BeNumerically(">=", 500))
		}
	}, SpecTimeout(20*time.Minute))

	It("leaves it at any error of the disk too, and gets there at the next try (G5)", func(ctx SpecContext) {
		if !crash.CanFail {
			Skip("calls cannot be made to fail on this architecture")
		}
		began := time.Now()
		for _, t := range transitions() {
			if strings.Contains(t.name, "bridge") && strings.Contains(t.name, "to installed") || strings.Contains(t.name, "the primary replaced") {
				By(t.name)
				faults += n.failed(ctx, n.record(ctx, t))
			}
		}
		report("install-cni had %d system calls of the store fail, and got there after each; in %s", faults, time.Since(began).Round(time.Second))
	}, SpecTimeout(10*time.Minute))
})

// recorded is a transition as it goes undisturbed.
type recorded struct {
	transition
	judge          *crash.Judge
	oldBin, newBin crash.Tree
	calls          int
	ops            []crash.Op // by call; of those that failed none
}

// record lets install-cni get there, once.
func (n *crashNode) record(ctx context.Context, t transition) *recorded {
	GinkgoHelper()
	s := &recorded{transition: t, oldBin: crash.Tree{}, newBin: crash.Tree{}}
	old, now := t.both(n.scratch)
	var err error
	s.judge, err = crash.NewJudge(old, now, n.scratch)
	Expect(err).NotTo(HaveOccurred())
	if t.oldBinary != "" {
		s.oldBin["holdfast-cni"] = crash.File{Data: []byte(t.oldBinary), Mode: 0o755}
	}
	if t.entry != "" {
		s.newBin["holdfast-cni"] = crash.File{Data: []byte(plugin("second")), Mode: 0o755}
	}
	n.reset(ctx, t, old)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var last atomic.Int64
	there := make(chan bool, 1)
	go func() {
		defer cancel()
		there <- n.getsThere(ctx, s, &last)
	}()
	Expect(n.run(ctx, t, func(stop crash.Stop) crash.Action {
		last.Store(time.Now().UnixNano())
		s.calls = max(s.calls, stop.Call)
		if stop.After && stop.Err == nil {
			s.ops = append(s.ops, stop.Op)
		}
		return crash.Action{}
	})).To(Succeed())
	Expect(<-there).To(BeTrue(), "%s: install-cni did not get there: %s", t.name, n.said())
	return s
}

// getsThere waits until both directories are as they are to be and nothing was changed for a while.
func (n *crashNode) getsThere(ctx context.Context, s *recorded, last *atomic.Int64) bool {
	const quiet = 400 * time.Millisecond
	for ctx.Err() == nil {
		conf, confErr := crash.Read(n.conf())
		bin, binErr := crash.Read(n.bin())
		if confErr == nil && binErr == nil && s.isNew(conf) && bin.Equal(s.newBin) && time.Since(time.Unix(0, last.Load())) > quiet {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// isNew does not ask for what failed to be removed: a temporary file, which is swept at the next start, and a drop-in directory,
// as nobody can tell whose it is once it is empty.
func (s *recorded) isNew(conf crash.Tree) bool {
	conf = conf.Lasting()
	maps.DeleteFunc(conf, func(name string, f crash.File) bool {
		_, stays := s.judge.New[name]
		return f.Mode.IsDir() && !stays && len(conf.Under(name)) == 0
	})
	return conf.Equal(s.judge.New)
}

// said is the end of what install-cni logged.
func (n *crashNode) said() string {
	data, _ := os.ReadFile(n.log.Name())
	return string(data[max(0, len(data)-4000):])
}

// killed kills install-cni before and after each of its calls.
func (n *crashNode) killed(ctx context.Context, s *recorded) {
	GinkgoHelper()
	for at := 1; at <= s.calls; at++ {
		for _, after := range []bool{false, true} {
			n.reset(ctx, s.transition, s.judge.Old)
			where := ""
			run, cancel := context.WithTimeout(ctx, 20*time.Second)
			err := n.run(run, s.transition, func(stop crash.Stop) crash.Action {
				if stop.Call != at || stop.After != after {
					return crash.Action{}
				}
				where = fmt.Sprintf("%s: killed at call %d (after: %t), %s %s", s.name, at, after, stop.Name, stop.Path)
				return crash.Action{Kill: true}
			})
			cancel()
			Expect(err).NotTo(HaveOccurred())
			Expect(where).NotTo(BeEmpty(), "%s: call %d was never made: %s", s.name, at, n.said())
			Expect(n.sound(s, n.conf(), n.bin())).To(Succeed(), where)
			Expect(n.runtimeLoads(ctx)).To(Succeed(), where)
		}
	}
}

// sound holds both directories to the old or the new state.
func (n *crashNode) sound(s *recorded, conf, bin string) error {
	if err := s.judge.Directory(conf); err != nil {
		return err
	}
	have, err := crash.Read(bin)
	if err != nil {
		return err
	}
	return crash.Whole(s.oldBin, s.newBin, have)
}

// lostPower replays what was recorded, up to each call, as a power loss would leave it.
func (n *crashNode) lostPower(ctx context.Context, s *recorded) (replays, loads int) {
	GinkgoHelper()
	const conf, bin = "etc/cni/net.d", "opt/cni/bin"
	start := crash.Tree{}
	for dir, tree := range map[string]crash.Tree{conf: s.judge.Old, bin: s.oldBin} {
		start[dir] = crash.File{Mode: os.ModeDir | 0o755}
		for name, f := range tree {
			start[filepath.Join(dir, name)] = f
		}
	}
	disk := crash.NewDisk(start)
	for i, op := range s.ops {
		op.Path, op.To = strings.TrimPrefix(op.Path, n.root), strings.TrimPrefix(op.To, n.root)
		Expect(disk.Do(op)).To(Succeed(), s.name)
		for first, lost := range disk.Lost() {
			where := fmt.Sprintf("%s: the power lost after operation %d, %s %s: %v", s.name, i+1, op.Kind, op.Path, slices.Sorted(maps.Keys(lost)))
			replays++
			Expect(lost.Under(conf).Write(n.scratch)).To(Succeed())
			Expect(s.judge.Directory(n.scratch)).To(Succeed(), where)
			Expect(crash.Whole(s.oldBin, s.newBin, lost.Under(bin))).To(Succeed(), where)
			if first == 0 { // nothing but what was synced
				Expect(lost.Under(conf).Write(n.conf())).To(Succeed())
				Expect(n.runtimeLoads(ctx)).To(Succeed(), where)
				loads++
			}
		}
	}
	// That no call was missed, and that nothing is left to lose.
	for _, tree := range append(disk.Lost(), disk.Now()) {
		tree = tree.Lasting()
		Expect(tree.Under(conf).Equal(s.judge.New) && tree.Under(bin).Equal(s.newBin)).To(BeTrue(), "%s: the recorded operations end in %v", s.name, slices.Sorted(maps.Keys(tree)))
	}
	return replays, loads
}

// failed has each call fail, and install-cni go on.
func (n *crashNode) failed(ctx context.Context, s *recorded) (faults int) {
	GinkgoHelper()
	for at := 1; at <= s.calls; at++ {
		errno := []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS}[at%3]
		n.reset(ctx, s.transition, s.judge.Old)
		run, cancel := context.WithTimeout(ctx, 30*time.Second)
		var last atomic.Int64
		var unsound error
		there := make(chan bool, 1)
		go func() {
			defer cancel()
			there <- n.getsThere(run, s, &last)
		}()
		where := ""
		Expect(n.run(run, s.transition, func(stop crash.Stop) crash.Action {
			last.Store(time.Now().UnixNano())
			if unsound == nil {
				unsound = n.sound(s, n.conf(), n.bin())
			}
			if stop.Call != at || stop.After {
				return crash.Action{}
			}
			where = fmt.Sprintf("%s: call %d, %s %s, failed with %v", s.name, at, stop.Name, stop.Path, errno)
			faults++
			return crash.Action{Fail: errno}
		})).To(Succeed())
		Expect(<-there).To(BeTrue(), "%s: it did not get there: %s", where, n.said())
		Expect(unsound).NotTo(HaveOccurred(), where)
	}
	return faults
}
