package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table is what was measured.
type table struct {
	rows   []string
	missed int
}

func (t *table) row(what, measured, goal string, met bool) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
		t.missed++
	}
	t.rows = append(t.rows, fmt.Sprintf("%s\t%s\t%s\t%s", what, measured, goal, verdict))
}

func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "number\tmeasured\tgoal\tverdict")
	for _, row := range t.rows {
		_, _ = fmt.Fprintln(w, row)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if t.missed > 0 {
		return fmt.Errorf("%w: %d of the table's rows", errMissed, t.missed)
	}
	return nil
}
