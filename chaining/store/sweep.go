package store

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Sweep removes what earlier lives that were interrupted have left in the directory and in those within it. It is for when
// no other process of ours writes there. Links are not followed; a directory that cannot be read is named in the error,
// and the others are swept all the same.
func Sweep(dir string) error {
	d, err := open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	entries, err := d.entries()
	if err != nil {
		return err
	}
	_, err = d.sweep(entries)
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, d.sweepSub(e.Name()))
		}
	}
	return err
}

// sweepSub also removes the directory where nothing but temporary files was in it: it was made for the file that never came.
func (d *directory) sweepSub(name string) error {
	sub, err := d.sub(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrInTheWay) {
		return nil // gone or replaced meanwhile
	} else if err != nil {
		return err
	}
	defer sub.Close()
	entries, err := sub.entries()
	if err != nil {
		return err
	}
	swept, err := sub.sweep(entries)
	if err == nil && swept > 0 && swept == len(entries) {
		err = d.rmdir(name)
	}
	return err
}

func (d *directory) sweep(entries []fs.DirEntry) (swept int, err error) {
	for _, e := range entries {
		if e.IsDir() || !isTemporary(e.Name()) {
			continue
		}
		if gone := d.root.Remove(e.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, failed("remove", filepath.Join(d.path, e.Name()), gone))
			continue
		}
		swept++
	}
	if swept > 0 {
		err = errors.Join(err, d.sync())
	}
	return swept, err
}

// Nudge makes a runtime, and a Cilium agent that is told to be exclusive, read the directory again: by the event of a
// file that is removed. Nothing of it has to survive a power loss.
func Nudge(dir string) error {
	d, err := open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	path := filepath.Join(dir, nudge)
	file, err := d.root.Create(nudge)
	if err != nil {
		return failed("create", path, err)
	}
	if err := errors.Join(file.Close(), d.root.Remove(nudge)); err != nil {
		return failed("remove", path, err)
	}
	return nil
}
