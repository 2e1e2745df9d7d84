package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-cni/holdfast/kind/engine"
)

// docker puts a program of that name in front of the path that does what script says.
func docker(t *testing.T, script string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "docker"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
}

func TestReleasedImagesWhereARegistryAnswers(t *testing.T) {
	docker(t, "exit 0")
	var said []string
	name, err := Node(t.Context(), &engine.Engine{}, t.TempDir(), func(text string) { said = append(said, text) })
	if err != nil || name != "" || len(said) != 1 {
		t.Errorf("Node = %q, %v, and said %q", name, err, said)
	}
}

func TestOneMadeHereWhereNoneAnswers(t *testing.T) {
	docker(t, `[ "$1" = image ] || exit 1`) // it is made already
	for _, e := range []*engine.Engine{{}, {Own: "/somewhere"}} {
		name, err := Node(t.Context(), e, t.TempDir(), func(string) {})
		if err != nil || !strings.HasPrefix(name, "holdfast/node:") {
			t.Errorf("Node = %q, %v", name, err)
		}
	}
}
