package chaining

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Directory is a CNI configuration directory at one moment, in the order in which a runtime looks at it.
type Directory struct {
	// Files are those a runtime looks at: named .conf, .conflist or .json and not directories, sorted by name. Links count,
	// whatever they lead to; sub-directories do not (libcni v1.3.1, conf.go, ConfFiles).
	Files []File
	// Renamed are the files that Cilium, told to be exclusive, has put aside (daemon/cmd/cni/config.go, cleanupOtherCNI).
	Renamed []Renamed
	// Ignored are all other files, such as temporary ones. No runtime looks at them.
	Ignored []string
	// Own are Holdfast's own files, among Files and in every sub-directory, sorted by name.
	Own []Own
}

// File is one configuration file.
type File struct {
	Name string
	// Network is what the runtime takes for the network's name; empty where it cannot tell.
	Network string
	// List is the file's own, without drop-ins; zero if Err is set.
	List List
	// Err is why Holdfast refuses the file. It is stricter than the runtime.
	Err error
	// Refused is why the runtime refuses it; nil where it loads the file, or where that cannot be told.
	Refused error
	empty   bool        // libcni sees no plugin in it, and Holdfast refuses it
	mode    fs.FileMode // its permissions, or of what the link leads to; 0 where they are not known
	// Dropins are what else belongs to the network.
	Dropins Dropins
}

// Renamed is a file that was put aside.
type Renamed struct {
	Name  string   // as it is now
	Types []string // of its plugins; none where it cannot be read
}

// maxRead bounds how many files are read; real directories have one or two. Those after are there, and refused.
const maxRead = 64

// RenamedBy is what Cilium appends to a file's name.
const RenamedBy = ".cilium_bak"

// ReadDirectory reads what is there now. Fsys is the host's root, or a copy of it; see [Follow] for links. A directory
// that does not exist is empty, as it is to libcni; any other error is about the directory itself. What is wrong with a
// file is in [File].
func ReadDirectory(fsys fs.FS, dir string) (Directory, error) {
	given := dir
	dir, entries, err := readDir(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Directory{}, nil
	} else if err != nil {
		return Directory{}, newFault(ErrNotFile, given, "the CNI configuration directory cannot be read (%s): give the runtime's", reasonOf(err))
	}
	var d Directory
	for _, e := range entries {
		name := e.Name()
		switch {
		case e.IsDir():
		case slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(name)):
			f := File{Name: name, Err: newFault(ErrTooLarge, "", "after the first %d files: remove those that are not needed", maxRead)}
			if len(d.Files) < maxRead {
				f = readFile(fsys, dir, name)
			}
			d.Files = append(d.Files, f)
		case strings.HasSuffix(name, RenamedBy):
			r := Renamed{Name: name}
			if len(d.Renamed) < maxRead {
				f := readFile(fsys, dir, name)
				r.Types = f.List.types()
			}
			d.Renamed = append(d.Renamed, r)
		default:
			d.Ignored = append(d.Ignored, name)
		}
	}
	d.findOwn(fsys, dir, entries)
	return d, nil
}

// readDir sorts by name, as fs.ReadDir does. At is the directory that the links lead to.
func readDir(fsys fs.FS, dir string) (at string, entries []fs.DirEntry, err error) {
	if at, err = Follow(fsys, dir); err != nil {
		return "", nil, err
	}
	info, err := fs.Lstat(fsys, at)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if err == nil {
		entries, err = fs.ReadDir(fsys, at)
	}
	return at, entries, err
}

func readFile(fsys fs.FS, dir, name string) File {
	f := File{Name: name}
	data, err, broken := content(fsys, path.Join(dir, name))
	if err != nil {
		f.Err = err
		if broken {
			f.Refused = err
		}
		return f
	}
	f.mode = permissions(fsys, path.Join(dir, name))
	isList := path.Ext(strings.TrimSuffix(name, RenamedBy)) == ".conflist"
	if isList {
		f.List, f.Err = Parse(data)
	} else {
		f.List, f.Err = ParseConf(data)
	}
	var alone bool
	if f.Err == nil {
		f.Network, alone = f.List.Name(), f.List.InlinedOnly()
	} else if len(data) <= MaxSize { // of a larger one nothing can be said
		f.Network, alone, f.empty, f.Refused = libcniReads(data, isList)
	}
	// Only a .conflist has drop-ins: go-cni and ocicni read the others without them.
	if isList && !alone && f.Network != "" && f.Refused == nil && checkName(stringNode(f.Network), "") == nil {
		f.Dropins = readDropins(fsys, path.Join(dir, f.Network))
	}
	return f
}

func (l List) types() []string {
	var all []string
	for _, p := range l.plugins {
		all = append(all, p.Type())
	}
	return all
}
