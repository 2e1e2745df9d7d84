package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
)

const (
	rewrites = 1000
	fight    = 10 * time.Second
)

// What a fight may cost. How soon the node closes and opens are the gate's own times, which no machine makes shorter: it is closed
// by half a second without proof or by five losses in ten seconds, and opens after two seconds of proof; the rest is slack.
const (
	closeGoal = 3 * time.Second
	openGoal  = 5 * time.Second
	fightCPU  = 30.0 // percent of a core
	lineGoal  = 100
	patchGoal = 30
)

// hostile has a neighbour rewrite our drop-in and the primary list, both, a thousand times.
func (b *bench) hostile(ctx context.Context) (err error) {
	m, err := b.newMachine(ctx, "hostile", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	gate, err := m.watchGate(ctx)
	if err != nil {
		return err
	}
	defer gate.stop()
	if err := pause(ctx, 5*time.Second); err != nil { // until what the start set off is over
		return err
	}
	b.cluster.proxy.take()
	lines, err := m.lines()
	if err != nil {
		return err
	}
	memory := figure.Follow(m.installer.PID())
	defer memory.Stop()
	used, err := figure.CPU(m.installer.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := m.fight(ctx, began); err != nil {
		return err
	}
	ended := time.Now()
	after, err := figure.CPU(m.installer.PID())
	if err != nil {
		return err
	}
	turns, err := gate.settled(ctx, ended)
	if err != nil {
		return err
	}
	if err := pause(ctx, 2*time.Second); err != nil { // what it says afterwards counts too
		return err
	}
	said, err := m.lines()
	if err != nil {
		return err
	}
	through := b.cluster.proxy.take()
	closed, opened, once := turns[0].at.Sub(began), turns[len(turns)-1].at.Sub(ended), len(turns) == 2
	b.table.Judge(fmt.Sprintf("hostile, %d rewrites of both files in %.1f s: closed after", rewrites, ended.Sub(began).Seconds()), fmt.Sprintf("%.1f s", closed.Seconds()), "≤ "+closeGoal.String(), closed <= closeGoal)
	b.table.Judge("hostile: closed from then to the end", fmt.Sprintf("turned %d times", len(turns)), "2 times: closed, and open after the end", once && opened > 0)
	b.table.Judge("hostile: open again after the end", fmt.Sprintf("%.1f s", opened.Seconds()), fmt.Sprintf("≤ %s (the gate holds for 2s)", openGoal), opened <= openGoal)
	percent := 100 * float64(after-used) / float64(ended.Sub(began))
	b.table.Judge("hostile: CPU", fmt.Sprintf("%.1f %% of a core", percent), fmt.Sprintf("≤ %.0f %%", fightCPU), percent <= fightCPU)
	b.table.Judge("hostile: log lines", fmt.Sprint(said-lines), fmt.Sprintf("≤ %d", lineGoal), said-lines <= lineGoal)
	b.table.Note("hostile: RssAnon, the most", figure.MiB(memory.Take()))
	patches := through.written("PATCH nodes")
	b.table.Judge("hostile: patches of the Node", fmt.Sprintf("%d (%s)", patches, through), fmt.Sprintf("≤ %d", patchGoal), patches <= patchGoal)
	return nil
}

// fight rewrites both files at an even pace, or as fast as can be.
func (m *machine) fight(ctx context.Context, began time.Time) error {
	own, err := m.own()
	if err != nil {
		return err
	}
	for i := range rewrites {
		if err := pause(ctx, time.Until(began.Add(fight*time.Duration(i+1)/rewrites))); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
			return fmt.Errorf("make a directory: %w", err)
		}
		if err := replace(own, m.foreign(i)); err != nil {
			return err
		}
		if err := replace(filepath.Join(m.conf, primary), network("pods", 1500+i%2)); err != nil {
			return err
		}
	}
	return nil
}

// lines is how many install-cni has logged.
func (m *machine) lines() (int, error) {
	text, err := os.ReadFile(m.log())
	return bytes.Count(text, []byte("\n")), err
}
