// Package figure is what the benchmarks have in common: the table that they print and judge, and what /proc says of a process.
package figure

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// ErrMissed ends a run whose table says what was missed.
var ErrMissed = errors.New("a goal was missed")

// Table is the numbers of one run. The zero value is empty.
type Table struct {
	rows   []string
	missed int
}

// Note adds a number that is there for the reader.
func (t *Table) Note(what, measured string) { t.row(what, measured, "", "") }

// Judge adds a number that has a goal.
func (t *Table) Judge(what, measured, goal string, met bool) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
		t.missed++
	}
	t.row(what, measured, goal, verdict)
}

func (t *Table) row(columns ...any) {
	t.rows = append(t.rows, fmt.Sprintf("%s\t%s\t%s\t%s", columns...))
}

// Print writes the table. It fails with ErrMissed if a goal was missed.
func (t *Table) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range append([]string{"number\tmeasured\tgoal\tverdict"}, t.rows...) {
		_, _ = fmt.Fprintln(w, row) // Flush says whether it failed
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if t.missed > 0 {
		return fmt.Errorf("%w: %d of the table's rows", ErrMissed, t.missed)
	}
	return nil
}

// Samples are durations of the same thing.
type Samples []time.Duration

// At is the p-th percentile (nearest rank); 0 of none.
func (s Samples) At(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(p/100*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

func (s Samples) String() string {
	return fmt.Sprintf("p50 %.1f, p99 %.1f, max %.1f ms", MS(s.At(50)), MS(s.At(99)), MS(s.At(100)))
}

// MS is a duration in milliseconds.
func MS(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// MiB writes a number of bytes.
func MiB(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
