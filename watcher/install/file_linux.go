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

// exec runs an executable of ours as it is. One of another vendor may need the node's own libraries, so it is run with the
// node's root for its own.
func (b *binary) exec() invoke.Exec {
	if b.source != "" || b.root == "/" {
		return nil // libcni's own
	}
	return &rooted{root: b.root}
}

// rooted runs plugins inside a root directory.
type rooted struct {
	version.PluginDecoder
	root string
}

// ExecPlugin runs one.
func (r *rooted) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	inside := strings.TrimPrefix(path, r.root)
	c := exec.CommandContext(ctx, inside)
	c.Env, c.Dir, c.Stdin = environ, "/", bytes.NewReader(stdin)
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: r.root}
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
