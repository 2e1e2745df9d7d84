// Package parts gives the third-party programs and sources that kind clusters are made of. Each folder beside this file is
// a module of its own that pins a version; hack/parts.sh builds and caches the binaries.
package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-cni/holdfast/kind/command"
)

// Cache returns the folder that holds everything worth keeping between runs.
func Cache() (string, error) {
	if folder := os.Getenv("HOLDFAST_CACHE"); folder != "" {
		return filepath.Abs(folder)
	}
	folder, err := os.UserCacheDir()
	return filepath.Join(folder, "holdfast"), err
}

// Get returns the path of each named binary, building what is missing; progress goes to standard error.
func Get(ctx context.Context, names ...string) (map[string]string, error) {
	output, err := script(ctx, names...)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for line := range strings.Lines(output) {
		path := strings.TrimSpace(line)
		paths[filepath.Base(path)] = path
	}
	return paths, nil
}

// Versions returns the version of every binary that there is.
func Versions(ctx context.Context) (map[string]string, error) {
	output, err := script(ctx, "--list")
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for line := range strings.Lines(output) {
		name, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		versions[name] = version
	}
	return versions, nil
}

// Source returns the folder that holds the source of module, in the version that folder's go.mod pins.
func Source(ctx context.Context, folder, module string) (string, error) {
	root, err := root(ctx)
	if err != nil {
		return "", err
	}
	cmd := command.New(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = filepath.Join(root, "kind", "parts", folder)
	output, err := command.Output(cmd)
	if err != nil {
		return "", err
	}
	var answer struct{ Dir string }
	return answer.Dir, unmarshal(output, &answer)
}

func script(ctx context.Context, args ...string) (string, error) {
	root, err := root(ctx)
	if err != nil {
		return "", err
	}
	cmd := command.New(ctx, filepath.Join(root, "hack", "parts.sh"), args...)
	cmd.Stderr = os.Stderr
	return command.Output(cmd)
}

// root returns the top of the working tree that this program is run in.
func root(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(output))), nil
}

func unmarshal(output string, into any) error {
	if err := json.Unmarshal([]byte(output), into); err != nil {
		return fmt.Errorf("go mod download: %w", err)
	}
	return nil
}
