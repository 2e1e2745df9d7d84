package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// What an error of this package is about, beside those of the system, for errors.Is.
var (
	// ErrNotOurs: the plan names a file that is not Holdfast's own.
	ErrNotOurs = errors.New("not a file of Holdfast's")
	// ErrInTheWay: a link, or what is no directory, is where a drop-in directory would be.
	ErrInTheWay = errors.New("in the way")
)

// failed says the act, the path, what the system said, and what to do about it.
func failed(act, path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the path is said in full
	}
	if fix := fixOf(err); fix != "" {
		return fmt.Errorf("%s %q: %w: %s", act, path, err, fix)
	}
	return fmt.Errorf("%s %q: %w", act, path, err)
}

func fixOf(err error) string {
	switch {
	case errors.Is(err, syscall.EROFS):
		return "mount the file system read-write, and if it turned read-only by itself see the node's kernel log"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free space or inodes on the file system that holds it"
	case errors.Is(err, fs.ErrPermission):
		return "run as root, and see that the directory is not immutable (lsattr -d)"
	case errors.Is(err, syscall.EIO):
		return "see the node's kernel log for its disk"
	case errors.Is(err, syscall.ENOENT):
		return "see that the directory exists and is mounted into this pod"
	}
	return ""
}
