package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnEngineThatCannotBeUsedIsOneSentenceWithItsFix(t *testing.T) {
	for _, test := range []struct{ name, script, host, want string }{
		{"without rights", "echo permission denied while trying to connect >&2; exit 1", "", "add yourself to the group docker"},
		{"elsewhere and silent", "echo cannot connect >&2; exit 1", "tcp://127.0.0.1:1", "unset DOCKER_HOST"},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "docker"), []byte("#!/bin/sh\n"+test.script), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
			t.Setenv("DOCKER_HOST", test.host)
			_, err := Find(t.Context(), folder)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("err = %v", err)
			}
		})
	}
}
