package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// row is one line of the table. Without a limit it is there for the reader.
type row struct {
	what, measured, limit string
	judged, met           bool
}

func (b *bench) note(what, measured string) {
	b.rows = append(b.rows, row{what: what, measured: measured})
}

func (b *bench) judge(what, measured, limit string, met bool) {
	b.rows = append(b.rows, row{what, measured, limit, true, met})
}

func write(out io.Writer, rows []row) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "number\tmeasured\tlimit\tok")
	missed := 0
	for _, r := range rows {
		verdict := ""
		if r.judged {
			verdict = "yes"
			if !r.met {
				verdict = "MISSED"
				missed++
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.what, r.measured, r.limit, verdict)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if missed > 0 {
		return fmt.Errorf("%w: %d of the table's rows", errMissed, missed)
	}
	return nil
}

// samples are durations of the same thing.
type samples []time.Duration

// at is the p-th percentile (nearest rank).
func (s samples) at(p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	rank := int(p/100*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

func (s samples) String() string {
	return fmt.Sprintf("p50 %.1f, p99 %.1f, max %.1f ms", ms(s.at(50)), ms(s.at(99)), ms(s.at(100)))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
