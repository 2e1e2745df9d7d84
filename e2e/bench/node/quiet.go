package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
)

const (
	cpuGoal    = 0.2 // percent of a core
	memoryGoal = 30 << 20
)

// quiet measures what install-cni does while nothing happens.
func (b *bench) quiet(ctx context.Context) (err error) {
	m, err := b.newMachine(ctx, "quiet", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	pid := m.installer.PID()
	memory := figure.Follow(pid)
	defer memory.Stop()
	// What the start itself set off (Events are sent from a queue) is no longer quiet.
	if err := pause(ctx, 15*time.Second); err != nil {
		return err
	}
	starting := memory.Take()
	before, err := m.observe(ctx)
	if err != nil {
		return err
	}
	b.cluster.proxy.take()
	if err := pause(ctx, b.quietTime); err != nil {
		return err
	}
	through, settled := b.cluster.proxy.take(), memory.Take()
	after, err := m.observe(ctx)
	if err != nil {
		return err
	}
	others := difference(before.writes, after.writes)
	b.table.Judge(fmt.Sprintf("quiet, %s: API writes of install-cni", b.quietTime), fmt.Sprintf("%d (%s)", through.written(""), through), "0", through.written("") == 0)
	b.table.Judge("quiet: API writes of anybody, by the API server's metrics, but for Leases", fmt.Sprintf("%d %s", len(others), strings.Join(others, ", ")), "0", len(others) == 0)
	touched := m.touched(before.files, after.files)
	b.table.Judge(fmt.Sprintf("quiet: of %d files and directories under the node's root, changed", len(before.files)), fmt.Sprintf("%d %s", len(touched), strings.Join(touched, ", ")), "0", len(touched) == 0)
	b.table.Judge("quiet: bytes written to any disk", fmt.Sprint(after.written-before.written), "0", after.written == before.written)
	used := 100 * float64(after.cpu-before.cpu) / float64(after.at.Sub(before.at))
	b.table.Judge("quiet: CPU", fmt.Sprintf("%.3f %% of a core (%s)", used, after.cpu-before.cpu), fmt.Sprintf("≤ %.1f %%", cpuGoal), used <= cpuGoal)
	b.table.Judge("quiet: RssAnon, the most", figure.MiB(settled), "≤ "+figure.MiB(memoryGoal), settled > 0 && settled <= memoryGoal)
	b.table.Judge("RssAnon from its start until then, the most", figure.MiB(starting), "≤ "+figure.MiB(memoryGoal), starting > 0 && starting <= memoryGoal)
	return nil
}

// observed is what can be seen of a node from outside at one time.
type observed struct {
	at      time.Time
	cpu     time.Duration
	written int64
	files   map[string]trace
	writes  map[string]int // to the API server, by anybody
}

func (m *machine) observe(ctx context.Context) (o observed, err error) {
	if m.installer.Exited() {
		return o, errors.New("install-cni ended by itself")
	}
	if o.writes, err = m.bench.cluster.writes(ctx); err != nil {
		return o, err
	}
	if o.files, err = traces(m.root); err != nil {
		return o, err
	}
	if o.written, err = figure.Written(m.installer.PID()); err != nil {
		return o, err
	}
	o.at = time.Now()
	o.cpu, err = figure.CPU(m.installer.PID())
	return o, err
}

// touched are the files that came, went or changed.
func (m *machine) touched(before, after map[string]trace) (names []string) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if before[path] != after[path] {
			name, err := filepath.Rel(m.root, path)
			if err != nil {
				name = path
			}
			names = append(names, name)
		}
	}
	return names
}
