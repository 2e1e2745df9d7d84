package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

const commandDocs = "../../docs/commands"

// The page of each command says what its flags are.
func TestCommandDocsAreUpToDate(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	root := newRoot()
	pages := map[string]bool{}
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		cmd.DisableAutoGenTag = true
		name := cmd.Name() + ".md"
		pages[name] = true
		var want bytes.Buffer
		// Cobra links to holdfast_watch.md; the pages are named for the command alone.
		link := func(page string) string { return strings.TrimPrefix(page, "holdfast_") }
		if err := doc.GenMarkdownCustom(cmd, &want, link); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(commandDocs, name)
		if *update {
			if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(have)); diff != "" {
			t.Errorf("%s: make generate: %s", name, diff)
		}
	}
	entries, err := os.ReadDir(commandDocs)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !pages[e.Name()] {
			t.Errorf("%s: no such command", e.Name())
		}
	}
}
