// Package image makes what kind nodes run from. Where a registry answers, these are the released images; elsewhere the node
// image, with all others inside it, is assembled here from Debian packages and from binaries built from source.
package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-cni/holdfast/kind/command"
	"github.com/holdfast-cni/holdfast/kind/engine"
	"github.com/holdfast-cni/holdfast/kind/parts"
)

const (
	// Probe is the image of the test pods, on every node.
	Probe = "localhost/holdfast-probe:1"
	// released is an image that kind's release names; it is small and tells whether a registry answers.
	released   = "registry.k8s.io/pause:3.10"
	repository = "holdfast/node"
)

// recipe is everything that an image made here depends on besides the versions of its parts.
//
//go:embed *.go *.sh probe runtime
var recipe embed.FS

// Node returns the node image to give to kind: "" for the released one that this version of kind names, or one made here.
func Node(ctx context.Context, e *engine.Engine, cache string, progress func(string)) (string, error) {
	if e.Own == "" && registryAnswers(ctx, e) {
		progress("a registry answers: using the released images")
		return "", nil
	}
	key, err := digest(ctx)
	if err != nil {
		return "", err
	}
	name := repository + ":" + key
	if _, err := e.Docker(ctx, "image", "inspect", "--format", "{{.Id}}", name); err == nil {
		return name, nil
	}
	if os.Geteuid() != 0 {
		return "", errors.New("no registry answers, and making the node image here needs root: use sudo, or connect to a registry")
	}
	if err := errors.Join(prerequisites(ctx), removeOld(ctx, e)); err != nil {
		return "", err
	}
	return name, assemble(ctx, e, cache, name, progress)
}

func registryAnswers(ctx context.Context, e *engine.Engine) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err := e.Docker(ctx, "pull", "--quiet", released)
	return err == nil
}

// removeOld removes the node images of earlier recipes: each takes almost two gigabytes. One that a cluster uses stays.
func removeOld(ctx context.Context, e *engine.Engine) error {
	names, err := e.Docker(ctx, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository)
	for _, name := range strings.Fields(names) {
		_, _ = e.Docker(ctx, "image", "rm", name)
	}
	return err
}

// digest names the recipe and the versions that go into the node image.
func digest(ctx context.Context) (string, error) {
	versions, err := parts.Versions(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range inNode(versions) {
		fmt.Fprintln(sum, name, versions[name])
	}
	err = fs.WalkDir(recipe, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := recipe.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}

// inNode returns the names of the parts that go into the node image: all but those that are used from outside.
func inNode(versions map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(versions)), func(name string) bool { return name == "kind" || name == "helm" })
}

// debian returns the base and the clang layer, from the cache folder where base.sh has not changed.
func debian(ctx context.Context, cache string, progress func(string)) (base, clang layer, err error) {
	script, err := recipe.ReadFile("base.sh")
	if err != nil {
		return base, clang, err
	}
	sum := sha256.Sum256(script)
	folder := filepath.Join(cache, "debian", hex.EncodeToString(sum[:])[:12])
	base.path, clang.path = filepath.Join(folder, "base.tar"), filepath.Join(folder, "clang.tar")
	if _, err := os.Stat(base.path); errors.Is(err, fs.ErrNotExist) {
		progress("installing Debian into a folder, about a minute")
		if err := os.RemoveAll(filepath.Join(cache, "debian")); err != nil { // what other scripts or killed runs left
			return base, clang, err
		}
		if err := installDebian(ctx, script, base.path, clang.path); err != nil {
			return base, clang, err
		}
	}
	if base.digest, err = fileDigest(base.path); err != nil {
		return base, clang, err
	}
	clang.digest, err = fileDigest(clang.path)
	return base, clang, err
}

// prerequisites installs what building here needs beside Go: debootstrap, and what runc is linked with.
func prerequisites(ctx context.Context) error {
	cmd := command.New(ctx, "sh", "-c", `
		command -v debootstrap && command -v gcc && command -v pkg-config && pkg-config --exists libseccomp ||
		{ apt-get update -q && apt-get install -q -y --no-install-recommends debootstrap gcc libc6-dev libseccomp-dev pkg-config; }`)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if err := command.Run(cmd); err != nil {
		return fmt.Errorf("install debootstrap, gcc, libseccomp-dev and pkg-config by Debian's apt-get: %w", err)
	}
	return nil
}

func installDebian(ctx context.Context, script []byte, base, clang string) error {
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return err
	}
	cmd := command.New(ctx, "bash", "-s", base, clang)
	cmd.Stdin = bytes.NewReader(script)
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	return command.Run(cmd)
}
