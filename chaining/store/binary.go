package store

import (
	"fmt"
	"io"
	"strings"
)

// InstallBinary replaces an executable in a bin directory, or puts it there: mode 0755, in one rename, so that whoever
// executes it has the old or the new one, whole. A link of that name is replaced, and what it leads to stays.
func InstallBinary(dir, name string, source io.Reader) error {
	return inDirectory(dir, name, func(d *directory) error { return d.copy(name, 0o755, source) })
}

// RemoveFile removes a file, such as an executable of ours, for good. One that is not there is no error. It is the caller's
// to know that the file is Holdfast's own.
func RemoveFile(dir, name string) error {
	return inDirectory(dir, name, func(d *directory) error { return d.unlink(name) })
}

func inDirectory(dir, name string, act func(*directory) error) error {
	if name == "" || strings.ContainsAny(name, "/\x00") || name[0] == '.' {
		return fmt.Errorf("file %q in %q: %w: give the name of a file", name, dir, ErrNotOurs)
	}
	d, err := open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return act(d)
}
