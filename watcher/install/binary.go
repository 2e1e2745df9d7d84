package install

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
	"github.com/holdfast-cni/holdfast/watcher/node"
)

// answerTime bounds how long an executable may take to say which versions it speaks.
const answerTime = 5 * time.Second

// binary keeps the plugin's executable where the runtime looks for it.
type binary struct {
	root   string // the node's, as this process sees it
	source string // what is installed; empty: somebody else's, only looked at
	digest [sha256.Size]byte

	seen identity // of the file whose content was last looked into
	good bool     // it has the digest

	asked    identity // of the file that was last asked for its versions
	versions []string // that it speaks
}

// identity changes with every change of a file (inode(7): ctime cannot be set back).
type identity struct {
	path       string
	info       fileID
	size       int64
	changed    time.Time
	executable bool
}

func newBinary(root, source string) (*binary, error) {
	b := &binary{root: root, source: source}
	if source == "" {
		return b, nil
	}
	sum, err := digestOf(source)
	if err != nil {
		return nil, fmt.Errorf("read --binary: %w", err)
	}
	b.digest = sum
	return b, nil
}

// ensure installs the executable where it is missing or another, and says what is still wrong with it; installed reports
// that it was written. Version is the list's cniVersion; empty: there is no list yet.
func (b *binary) ensure(ctx context.Context, fsys fs.FS, dirs []string, kind, version string) (reason chaining.Reason, message string, installed bool) {
	if len(dirs) == 0 {
		return chaining.BinaryMissing, "the runtime names no bin directory; set chain.binDir", false
	}
	found := b.find(fsys, dirs, kind)
	if b.source != "" && !b.is(found) {
		var err error
		if found, err = b.install(fsys, dirs, kind, found); err != nil {
			if found == "" {
				return chaining.BinaryMissing, err.Error(), false
			}
			return chaining.BinaryDiffers, err.Error(), false
		}
		installed = true
	}
	if found == "" {
		return chaining.BinaryMissing, fmt.Sprintf("%s is in none of %s", kind, strings.Join(dirs, ", ")), false
	}
	reason, message = b.speaks(ctx, found, version)
	return reason, message, installed
}

// find is where this process sees the executable that the runtime would run; empty where there is none.
func (b *binary) find(fsys fs.FS, dirs []string, kind string) string {
	for _, dir := range dirs {
		at, err := node.Resolve(fsys, filepath.Join(dir, kind))
		if err != nil {
			continue
		}
		if info, err := fs.Stat(fsys, at); err == nil && info.Mode().IsRegular() {
			return filepath.Join(b.root, at)
		}
	}
	return ""
}

// is reports whether the file is ours, by its content where it changed since it was last read.
func (b *binary) is(path string) bool {
	id, err := identify(path)
	if err != nil || !id.executable {
		return false
	}
	if id == b.seen {
		return b.good
	}
	sum, err := digestOf(path)
	if err != nil {
		return false
	}
	b.seen, b.good = id, sum == b.digest
	return b.good
}

// install writes into the first directory that takes it, or over the file that is found instead.
func (b *binary) install(fsys fs.FS, dirs []string, kind, found string) (string, error) {
	if found != "" {
		dirs = []string{strings.TrimPrefix(filepath.Dir(found), b.root)}
	}
	var failed error
	for _, dir := range dirs {
		at, err := b.directory(fsys, dir)
		if err == nil {
			err = b.copy(at, kind)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("install %s into %s: %w", kind, dir, err))
			continue
		}
		path := filepath.Join(at, kind)
		if !b.is(path) {
			return path, fmt.Errorf("install %s into %s: it was replaced at once", kind, dir)
		}
		return path, nil
	}
	return found, failed
}

// directory is where this process sees a bin directory, made where it is missing and its parent is there.
func (b *binary) directory(fsys fs.FS, dir string) (string, error) {
	at, err := node.Resolve(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		parent, err := node.Resolve(fsys, filepath.Dir(dir))
		if err != nil {
			return "", err
		}
		made := filepath.Join(b.root, parent, filepath.Base(dir))
		return made, os.Mkdir(made, 0o755)
	}
	return filepath.Join(b.root, at), err
}

func (b *binary) copy(dir, kind string) error {
	source, err := os.Open(b.source)
	if err != nil {
		return err
	}
	defer source.Close()
	return store.InstallBinary(dir, kind, source)
}

// speaks asks the executable for the versions it speaks, once for each content.
func (b *binary) speaks(ctx context.Context, path, version string) (chaining.Reason, string) {
	id, err := identify(path)
	if err != nil {
		return chaining.BinaryMissing, err.Error()
	}
	if id != b.asked {
		versions, err := b.ask(ctx, path)
		if err != nil {
			return chaining.BinaryDiffers, fmt.Sprintf("%s does not answer VERSION: %s", filepath.Base(path), err)
		}
		b.asked, b.versions = id, versions
	}
	if version != "" && !slices.Contains(b.versions, version) {
		return chaining.BinaryDiffers, fmt.Sprintf("%s speaks CNI %s, not the list's %s", filepath.Base(path), strings.Join(b.versions, ", "), version)
	}
	return chaining.Chained, ""
}

func (b *binary) ask(ctx context.Context, path string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	info, err := invoke.GetVersionInfo(ctx, path, b.exec())
	if err != nil {
		return nil, err
	}
	return info.SupportedVersions(), nil
}

func digestOf(path string) (sum [sha256.Size]byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(hash.Sum(nil)), nil
}
