package chaining

import (
	"errors"
	"io/fs"
	"path"
)

// Dropins are the entries that a runtime with libcni v1.3.0 or later appends to a network's list: the .conf files of the
// directory that is named as the network, beside the list, sorted by name (libcni v1.3.1, conf.go,
// NetworkPluginConfsFromFiles).
type Dropins struct {
	Dir   string // the directory's name within the configuration directory; empty where there is none
	Link  bool   // the directory is a link; libcni follows it
	Files []Dropin
	Err   error // why the directory cannot be read; the runtime then refuses the list as well

	hidden bool // only from us: the runtime may read it
}

// Dropin is one of them.
type Dropin struct {
	Name    string
	Entry   Entry // zero if Err is set
	Err     error // why Holdfast refuses it
	Refused error // why the runtime refuses it, and the whole list with it
}

// Refused is why the runtime refuses the network because of its drop-ins; nil where it does not.
func (d Dropins) Refused() error {
	if d.Err != nil && !d.hidden {
		return d.Err
	}
	for _, f := range d.Files {
		if f.Refused != nil {
			return f.Refused
		}
	}
	return nil
}

// readDropins takes a directory whose parent has no links.
func readDropins(fsys fs.FS, dir string) Dropins {
	info, err := fs.Lstat(fsys, dir)
	if err != nil {
		return Dropins{}
	}
	d := Dropins{Dir: path.Base(dir), Link: info.Mode().Type() == fs.ModeSymlink}
	at, entries, err := readDir(fsys, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a link that leads nowhere is no directory to libcni
		return d
	case err != nil:
		d.hidden = errors.Is(err, fs.ErrPermission)
		d.Err = newFault(ErrNotFile, d.Dir, "the network's drop-in directory cannot be read (%s): remove it", reasonOf(err))
		return d
	}
	for _, e := range entries {
		if e.IsDir() || path.Ext(e.Name()) != ".conf" {
			continue
		}
		f := Dropin{Name: e.Name(), Err: newFault(ErrTooLarge, "", "after the first %d files: remove those that are not needed", maxRead)}
		if len(d.Files) < maxRead {
			f = readDropin(fsys, at, e.Name())
		}
		d.Files = append(d.Files, f)
	}
	return d
}

func readDropin(fsys fs.FS, dir, name string) Dropin {
	f := Dropin{Name: name}
	data, err, broken := content(fsys, path.Join(dir, name))
	if err != nil {
		f.Err = err
		if broken {
			f.Refused = err
		}
		return f
	}
	if f.Entry, f.Err = ParseEntry(data); f.Err != nil && len(data) <= MaxSize {
		f.Refused = libcniReadsDropin(data)
	}
	return f
}
