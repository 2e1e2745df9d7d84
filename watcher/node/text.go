package node

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// String is the report for a person: what is there, what counts, and last the verdict with its fix.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "runtime    %s (%s)\n", r.Runtime.Value, show(r.Runtime.Why))
	fmt.Fprintf(&b, "conf dir   %s (%s)\n", show(r.ConfDir.Value), show(r.ConfDir.Why))
	if len(r.BinDirs) > 0 {
		fmt.Fprintf(&b, "bin dirs   %s\n", showAll(r.BinDirs))
	}
	fmt.Fprintf(&b, "drop-ins   %s (%s)\n", r.Dropins.said(), r.Dropins.Why)
	fmt.Fprintf(&b, "proof      %s\n", r.Proof)
	if a := r.Asked; a != nil {
		fmt.Fprintf(&b, "loaded     %s\n", a.said())
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note       %s\n", show(note))
	}

	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(r.Files)+len(r.Renamed)+len(r.Ignored) > 0 {
		fmt.Fprintln(w, "\nfiles, as the runtime sorts them")
	}
	for _, f := range r.Files {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", show(f.Name), f.State, f.said())
	}
	for _, f := range r.Renamed {
		whose := ""
		if f.Ours {
			whose = "; has the plugin's entry"
		}
		fmt.Fprintf(w, "  %s\trenamed\tby %s, which is told to be the only network%s\n", show(f.Name), f.By, whose)
	}
	for _, name := range r.Ignored {
		fmt.Fprintf(w, "  %s\tignored\tnot a name that a runtime looks at\n", show(name))
	}
	if l := r.Loaded; l != nil {
		fmt.Fprintf(w, "\ncounts: %s, %s\n", show(l.File), show(l.Why))
		for i, p := range l.Plugins {
			fmt.Fprintf(w, "  %d\t%s\t%s%s\n", i, p.Type, show(p.From), p.said())
		}
	}
	w.Flush()

	if r.Strategy != nil {
		fmt.Fprintf(&b, "\nstrategy   %s: %s\n", r.Strategy.Name, show(r.Strategy.Why))
	} else {
		b.WriteString("\n")
	}
	b.WriteString(r.Verdict.said())
	return b.String()
}

func (a *Asked) said() string {
	switch {
	case len(a.Plugins) > 0:
		return fmt.Sprintf("network %s: %s (asked of %s)", show(a.Network), showAll(a.Plugins), show(a.Socket))
	case a.Failure != "":
		return fmt.Sprintf("nothing: %s (asked of %s)", show(a.Failure), show(a.Socket))
	}
	return fmt.Sprintf("it does not say (asked of %s)", show(a.Socket))
}

func (d Dropins) said() string {
	text := "not read"
	if d.Read {
		text = "read"
	}
	if d.Dir != "" {
		text += fmt.Sprintf(", %d in %s", len(d.Files), show(d.Dir))
	}
	if d.Link {
		text += ", which is a link"
	}
	return text
}

func (f File) said() string {
	const most = 8
	text := f.Network
	if n := len(f.Plugins); n > most {
		text += fmt.Sprintf(": %s and %d more", strings.Join(f.Plugins[:most], ", "), n-most)
	} else if n > 0 {
		text += ": " + strings.Join(f.Plugins, ", ")
	}
	if f.Error != "" {
		text = f.Error
	}
	return show(text)
}

func (p Plugin) said() string {
	text := ""
	if p.Binary == Missing {
		text += "  no executable"
	}
	if p.Entry {
		text += "  <- the plugin's entry"
	}
	return text
}

func (v Verdict) said() string {
	compared := ""
	if !v.Compared {
		compared = "; what is in it was not compared, as no plugin.json was given"
	}
	if v.Chained {
		return fmt.Sprintf("verdict    chained: %s is there once and last%s\n", v.Type, compared)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "verdict    %s: %s\n", v.Reason, v.Means)
	if v.Message != "" {
		fmt.Fprintf(&b, "  %s\n", show(v.Message))
	}
	for _, d := range v.Differences {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	fmt.Fprintf(&b, "  fix: %s\n", v.Fix)
	return b.String()
}

// show quotes what would not stay on its line: the names of files are anybody's.
func show(text string) string {
	if !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	for _, r := range text {
		if !strconv.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

func showAll(texts []string) string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = show(text)
	}
	return strings.Join(shown, ", ")
}
