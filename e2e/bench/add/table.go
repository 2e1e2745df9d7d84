package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// samples are durations of the same thing.
type samples []time.Duration

// at is the p-th percentile (nearest rank).
func (s samples) at(p int) float64 {
	sorted := slices.Sorted(slices.Values(s))
	return float64(sorted[min(len(sorted)*p/100, len(sorted)-1)].Microseconds()) / 1000
}

// goal is a ratio of two medians that is not to be more than most.
type goal struct {
	of, to string
	most   float64
}

var goals = []goal{{"ungoverned", "pass-through", 1.10}, {"governed", "pass-through", 2.0}, {"governed", "portmap", 0.3}}

const largest = 8 << 20

func judge(out io.Writer, all []*call, size int64) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	took := map[string]samples{}
	fmt.Fprintln(table, "ADD of\tp10\tmedian\tp90 (ms)\tits own CPU time, median")
	slices.SortFunc(all, func(a, b *call) int { return int(a.took.at(50)*1000) - int(b.took.at(50)*1000) })
	for _, c := range all {
		took[c.name] = c.took
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.2f\n", c.name, c.took.at(10), c.took.at(50), c.took.at(90), c.cpu.at(50))
	}
	fmt.Fprintln(table, "\nnumber\tmeasured\tgoal\tverdict")
	missed := 0
	row := func(what, measured, most string, met bool) {
		verdict := "met"
		if !met {
			verdict = "MISSED"
			missed++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", what, measured, most, verdict)
	}
	for _, g := range goals {
		ratio := took[g.of].at(50) / took[g.to].at(50)
		row(g.of+" : "+g.to, fmt.Sprintf("%.2f", ratio), fmt.Sprintf("at most %.2f", g.most), ratio <= g.most)
	}
	row("binary", fmt.Sprintf("%.2f MiB", float64(size)/(1<<20)), "at most 8 MiB", size <= largest)
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if missed > 0 {
		return fmt.Errorf("%w: %d of the table's rows", errMissed, missed)
	}
	return nil
}
