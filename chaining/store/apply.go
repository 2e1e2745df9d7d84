package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/holdfast-cni/holdfast/chaining"
)

// Apply does what the change says, in its order; each step is durable before the next begins, and the first that fails
// ends it. A file that is to be removed and is not there is no error. A drop-in directory is made where it is missing, and
// removed once it is empty.
func Apply(dir string, c chaining.Change) error {
	if c.Empty() {
		return nil
	}
	for _, put := range c.Put {
		if !chaining.IsOwn(put.Name) {
			return fmt.Errorf("write %q in %q: %w", put.Name, dir, ErrNotOurs)
		}
	}
	for _, name := range c.Remove {
		if !chaining.IsOwn(name) {
			return fmt.Errorf("remove %q in %q: %w", name, dir, ErrNotOurs)
		}
	}
	conf, err := open(dir)
	if err != nil {
		return err
	}
	defer conf.Close()
	for _, put := range c.Put {
		if err := conf.put(put); err != nil {
			return err
		}
	}
	if len(c.Put) == 0 {
		// What replaces them may be of an earlier life that was killed before it made it durable.
		if err := conf.settle(); err != nil {
			return err
		}
	}
	for _, name := range c.Remove {
		if err := conf.remove(name); err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) put(p chaining.Put) error {
	network, name := path.Split(p.Name)
	if network == "" {
		return d.write(name, p.Mode, p.Data)
	}
	network = path.Clean(network)
	made, err := d.mkdir(network)
	if err == nil {
		err = d.putInto(network, name, p)
	}
	if err != nil && made {
		_ = d.rmdir(network) // the old state; the error to tell is the first
	}
	return err
}

func (d *directory) putInto(network, name string, p chaining.Put) error {
	dropins, err := d.sub(network)
	if err != nil {
		return err
	}
	defer dropins.Close()
	return dropins.write(name, p.Mode, p.Data)
}

func (d *directory) remove(name string) error {
	network, file := path.Split(name)
	if network == "" {
		return d.unlink(file)
	}
	network = path.Clean(network)
	dropins, err := d.sub(network)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer dropins.Close()
	// Also where it is not sure that the file is gone for good: nobody comes back for an empty directory.
	return errors.Join(dropins.unlink(file), d.rmdir(network))
}

// mkdir makes a drop-in directory that survives a power loss, also where an earlier life has made it; made says whether it
// was missing.
func (d *directory) mkdir(name string) (made bool, err error) {
	switch err := d.root.Mkdir(name, 0o755); {
	case errors.Is(err, fs.ErrExist):
		return false, d.sync()
	case err != nil:
		return false, failed("make directory", filepath.Join(d.path, name), err)
	}
	if err := d.root.Chmod(name, 0o755); err != nil { // whatever the umask is
		return true, failed("change the mode of", filepath.Join(d.path, name), err)
	}
	return true, d.sync()
}

// settle makes all names durable, in the directory and in those within it.
func (d *directory) settle() error {
	entries, err := d.entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		sub, err := d.sub(e.Name())
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrInTheWay) {
			continue // gone or replaced meanwhile
		} else if err != nil {
			return err
		}
		err = errors.Join(sub.sync(), sub.Close())
		if err != nil {
			return err
		}
	}
	return d.sync()
}

// rmdir removes a directory that is empty, and leaves any other.
func (d *directory) rmdir(name string) error {
	// os.Root.Remove would remove a file as well, but a directory of this name is what was just looked into.
	err := d.root.Remove(name)
	switch {
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return failed("remove directory", filepath.Join(d.path, name), err)
	}
	return d.sync()
}

// open opens a directory whose path has no links.
func open(dir string) (*directory, error) {
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		return nil, fmt.Errorf("open directory %q: a link or a file is %w: give the path that it leads to", dir, ErrInTheWay)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failed("open directory", dir, err)
	}
	return &directory{path: dir, root: root}, nil
}

// sub opens a drop-in directory, and nothing that only leads to one.
func (d *directory) sub(name string) (*directory, error) {
	full := filepath.Join(d.path, name)
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, failed("open directory", full, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open directory %q: a link or a file is %w: remove it, or put a directory in its place", full, ErrInTheWay)
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, failed("open directory", full, err)
	}
	now, err := root.Stat(".")
	if err != nil || !os.SameFile(info, now) {
		root.Close()
		return nil, fmt.Errorf("open directory %q: what replaced it meanwhile is %w: try again", full, ErrInTheWay)
	}
	return &directory{path: full, root: root}, nil
}
