package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
)

const (
	events = 200
	goal   = 150 * time.Millisecond
)

// slowest is the p99 of a plain write up to which the goal must hold, a slow disk's on a quiet machine: there the goal is this
// many plain writes, and so it is on a faster or a busier machine.
const (
	slowest = 20 * time.Millisecond
	most    = float64(goal) / float64(slowest)
)

// life is how many events one install-cni sees where its list is removed: after three removals within ten minutes it is to refuse
// the strategy, and the first is none to a process that did not write the list itself.
const life = 9

// repair measures, in turn so that both meet the same load, a plain write that another containerd loads, and an event in the
// directory of a node until the right list is proved again.
func (b *bench) repair(ctx context.Context, by chaining.Strategy) (err error) {
	m, err := b.newMachine(ctx, "repair-"+string(by), by)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	folder := filepath.Join(b.folder, "plain-"+string(by))
	plain, err := startRuntime(ctx, b.parts.containerd, folder, filepath.Join(folder, "root"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.close()) }()
	acts := []struct {
		what string
		do   func(i int) error
		took figure.Samples
	}{{what: "ours removed", do: m.removed}, {what: "ours overwritten", do: m.overwritten}, {what: "the primary replaced", do: m.moved}}
	var writes, all figure.Samples
	seen := 0
	for i := range events {
		if by == chaining.ByList && i%life == 0 {
			if err := m.restart(ctx); err != nil {
				return err
			}
		}
		took, err := plain.write(ctx, i)
		if err != nil {
			return fmt.Errorf("plain write %d: %w", i, err)
		}
		writes = append(writes, took)
		act := &acts[i%len(acts)]
		took, wrong, err := m.event(ctx, act.do, i)
		if err != nil {
			return fmt.Errorf("%s (event %d): %w", act.what, i, err)
		}
		act.took, all = append(act.took, took), append(all, took)
		if wrong {
			seen++
		}
	}
	ratio, half := float64(all.At(99))/float64(writes.At(99)), float64(all.At(50))/float64(writes.At(50))
	b.table.Note(fmt.Sprintf("%s: a plain write until containerd has loaded it", by), writes.String())
	for _, act := range acts {
		b.table.Note(fmt.Sprintf("%s: %s until repaired and proved", by, act.what), act.took.String())
	}
	b.table.Judge(fmt.Sprintf("%s: all %d events (of %d containerd was seen with a wrong list)", by, events, seen),
		fmt.Sprintf("%s; p50 = %.1f, p99 = %.1f plain writes", all, half, ratio), fmt.Sprintf("p99 ≤ %.1f plain writes (%s where one takes %s)", most, goal, slowest), ratio <= most)
	return nil
}

// write returns how long a plain write took until the runtime had loaded it.
func (r *runtime) write(ctx context.Context, i int) (time.Duration, error) {
	began := time.Now()
	if err := careful(filepath.Join(r.conf, primary), network("pods", 1500+i)); err != nil {
		return 0, err
	}
	at, _, err := r.proved(ctx, func(list *chaining.List) bool { return hasMTU(list, 1500+i) })
	return at.Sub(began), err
}

// event returns how long it took from what a neighbour did until the right list was proved, and whether the runtime had a wrong
// one in between. It comes when install-cni is idle, at no moment in particular.
func (m *machine) event(ctx context.Context, do func(int) error, i int) (took time.Duration, wrong bool, err error) {
	if err := pause(ctx, 100*time.Millisecond+rand.N(100*time.Millisecond)); err != nil {
		return 0, false, err
	}
	began := time.Now()
	if err := do(i); err != nil {
		return 0, false, err
	}
	mtu := m.mtu(i)
	at, times, err := m.proved(ctx, func(list *chaining.List) bool {
		return hasMTU(list, mtu) && chaining.Check(*list, m.entry).Reason == chaining.Chained
	})
	return at.Sub(began), times > 0, err
}

// mtu is that of the primary list after an event: each third replaces it.
func (m *machine) mtu(i int) int {
	if i < 2 {
		return 1450
	}
	return 1500 + (i-2)/3*3 + 2
}

func (m *machine) removed(int) error {
	path, err := m.own()
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove a file: %w", err)
	}
	return m.shown()
}

func (m *machine) overwritten(i int) error {
	path, err := m.own()
	if err != nil {
		return err
	}
	if err := replace(path, m.foreign(i)); err != nil {
		return err
	}
	return m.shown()
}

// moved replaces the primary list by one of another name, so that a drop-in has to follow into another directory.
func (m *machine) moved(i int) error {
	return replace(filepath.Join(m.conf, primary), network(fmt.Sprintf("pods-%d", i%2), m.mtu(i)))
}
