package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Temporary names: none of the kinds that a runtime or Cilium looks at (.conf, .conflist, .json).
const (
	temporaryPrefix = ".holdfast-"
	temporarySuffix = ".tmp"
	nudge           = ".holdfast-nudge"
)

func isTemporary(name string) bool {
	return name == nudge || strings.HasPrefix(name, temporaryPrefix) && strings.HasSuffix(name, temporarySuffix)
}

// directory is one that is written to.
type directory struct {
	path string // for messages
	root *os.Root
}

func (d *directory) Close() error { return d.root.Close() }

func (d *directory) write(name string, mode fs.FileMode, data []byte) error {
	return d.copy(name, mode, bytes.NewReader(data))
}

// copy replaces a file by what is read, in one rename, for good.
func (d *directory) copy(name string, mode fs.FileMode, from io.Reader) error {
	temporary := temporaryPrefix + rand.Text() + temporarySuffix
	if err := d.fill(temporary, mode, from); err != nil {
		_ = d.root.Remove(temporary)
		return failed("write", filepath.Join(d.path, name), err)
	}
	if err := d.root.Rename(temporary, name); err != nil {
		_ = d.root.Remove(temporary)
		var at *os.LinkError
		if errors.As(err, &at) {
			err = at.Err
		}
		return failed("put in place", filepath.Join(d.path, name), err)
	}
	return d.sync()
}

// fill writes a new file that survives a power loss once it has a name that does.
func (d *directory) fill(name string, mode fs.FileMode, from io.Reader) (err error) {
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := io.Copy(file, from); err != nil {
		return err
	}
	if err := file.Chmod(mode.Perm()); err != nil { // whatever the umask is
		return err
	}
	return file.Sync()
}

// unlink removes a file, for good. One that is not there is no error.
func (d *directory) unlink(name string) error {
	err := d.root.Remove(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return failed("remove", filepath.Join(d.path, name), err)
	}
	return d.sync()
}

// sync makes the names in the directory survive a power loss.
func (d *directory) sync() error {
	file, err := d.root.Open(".")
	if err != nil {
		return failed("open directory", d.path, err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return failed("sync directory", d.path, err)
	}
	return nil
}

func (d *directory) entries() ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, failed("read directory", d.path, err)
	}
	return entries, nil
}
