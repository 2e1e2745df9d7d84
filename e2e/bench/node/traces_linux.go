package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// trace is what of a file changes whenever anybody writes it, or its name, mode or owner (inode(7)).
type trace struct {
	inode           uint64
	size            int64
	written, status syscall.Timespec // mtime, ctime
}

// traces are those of everything below a directory.
func traces(root string) (map[string]trace, error) {
	all := map[string]trace{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var s syscall.Stat_t
		if err := syscall.Lstat(path, &s); err != nil {
			return fmt.Errorf("stat %s: %w", path, err)
		}
		all[path] = trace{s.Ino, s.Size, s.Mtim, s.Ctim}
		return nil
	})
	return all, err
}
