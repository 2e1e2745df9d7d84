package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"
)

// fileID is a file's own, whatever its name.
type fileID struct{ device, inode uint64 }

func identify(path string) (identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return identity{}, err
	}
	if !info.Mode().IsRegular() {
		return identity{}, fmt.Errorf("%s: %w", path, fs.ErrInvalid)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, fmt.Errorf("%s: %w", path, errors.ErrUnsupported)
	}
	return identity{path: path, info: fileID{uint64(stat.Dev), stat.Ino}, size: info.Size(),
		changed: time.Unix(stat.Ctim.Sec, stat.Ctim.Nsec), executable: info.Mode()&0o111 != 0}, nil
}

// exec runs executables as they are, and with the node's root for their own where they need the node's libraries.
func (b *binary) exec() invoke.Exec { return &rooted{root: b.root} }

// rooted runs plugins of the node whose root is mounted here.
type rooted struct {
	version.PluginDecoder
	root string
}

// ExecPlugin runs one. A dynamic one whose loader is not here fails as if it were not there itself (execve(2), ENOENT).
func (r *rooted) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	out, err := run(ctx, path, "", stdin, environ)
	if errors.Is(err, fs.ErrNotExist) && r.root != "/" {
		return run(ctx, strings.TrimPrefix(path, r.root), r.root, stdin, environ)
	}
	return out, err
}

func run(ctx context.Context, path, root string, stdin []byte, environ []string) ([]byte, error) {
	c := exec.CommandContext(ctx, path)
	c.Env, c.Dir, c.Stdin = environ, "/", bytes.NewReader(stdin)
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

// FindInPath is not asked: the path is known.
func (r *rooted) FindInPath(plugin string, paths []string) (string, error) {
	return filepath.Join(paths[0], plugin), nil
}

func identifyDir(path string) (fileID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return fileID{}, fmt.Errorf("%s: %w", path, fs.ErrInvalid)
	}
	return fileID{uint64(stat.Dev), stat.Ino}, nil
}
