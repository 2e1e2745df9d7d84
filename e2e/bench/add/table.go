package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
)

// goal is a ratio of two medians that is not to be more than most.
type goal struct {
	of, to string
	most   float64
}

var goals = []goal{{"ungoverned", "pass-through", 1.10}, {"governed", "pass-through", 2.0}, {"governed", "portmap", 0.3}}

const largest = 8 << 20

func judge(out io.Writer, all []*call, size int64) error {
	times := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(times, "ADD of\tp10\tmedian\tp90 (ms)\tits own CPU time, median")
	slices.SortFunc(all, func(a, b *call) int { return int(a.took.At(50) - b.took.At(50)) })
	median := map[string]float64{}
	for _, c := range all {
		median[c.name] = figure.MS(c.took.At(50))
		fmt.Fprintf(times, "%s\t%.2f\t%.2f\t%.2f\t%.2f\n", c.name, figure.MS(c.took.At(10)), median[c.name], figure.MS(c.took.At(90)), figure.MS(c.cpu.At(50)))
	}
	fmt.Fprintln(times)
	if err := times.Flush(); err != nil {
		return fmt.Errorf("print the times: %w", err)
	}
	var t figure.Table
	for _, g := range goals {
		ratio := median[g.of] / median[g.to]
		t.Judge(g.of+" : "+g.to, fmt.Sprintf("%.2f", ratio), fmt.Sprintf("at most %.2f", g.most), ratio <= g.most)
	}
	t.Judge("binary", figure.MiB(size), "at most "+figure.MiB(largest), size <= largest)
	return t.Print(out)
}
