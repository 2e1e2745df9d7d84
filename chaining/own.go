package chaining

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// What the files are named that Holdfast writes into a configuration directory, and nobody else: a list of its own stands
// immediately before the primary one, for "-" sorts before "."; a drop-in after those of others, for "_" sorts after it.
const (
	ownList    = "-holdfast.conflist"
	ownDropin  = "99-holdfast.conf"
	lateDropin = "_holdfast.conf"
)

// maxDirs bounds in how many sub-directories own drop-ins are looked for; real nodes have one or two.
const maxDirs = 256

// Own is a file of Holdfast's own.
type Own struct {
	Name string // relative to the configuration directory: "10-pods-holdfast.conflist", "pods/99-holdfast.conf"
	data []byte // nil where it is not a readable file itself
}

// IsOwn reports whether a file, named relative to the configuration directory, is Holdfast's to write and to remove.
func IsOwn(name string) bool {
	dir, file := path.Split(name)
	if dir == "" {
		return strings.HasSuffix(file, ownList)
	}
	dir = strings.TrimSuffix(dir, "/")
	return dir != "" && dir != "." && dir != ".." && !strings.Contains(dir, "/") && isOwnDropin(file)
}

func isOwnDropin(file string) bool { return file == ownDropin || strings.HasSuffix(file, lateDropin) }

// findOwn looks for own files wherever they are: drop-ins of networks that are gone too. Links to directories are followed
// only where the runtime may follow them.
func (d *Directory) findOwn(fsys fs.FS, dir string, entries []fs.DirEntry) {
	linked := d.linkedDropins()
	dirs := 0
	for _, e := range entries {
		switch {
		case !e.IsDir() && IsOwn(e.Name()):
			d.addOwn(fsys, dir, e.Name(), e)
		case e.IsDir() || slices.Contains(linked, e.Name()):
			if dirs++; dirs > maxDirs {
				continue
			}
			_, inside, err := readDir(fsys, path.Join(dir, e.Name()))
			if err != nil {
				continue // the runtime's error, where it is one
			}
			for _, f := range inside {
				if !f.IsDir() && isOwnDropin(f.Name()) {
					d.addOwn(fsys, dir, path.Join(e.Name(), f.Name()), f)
				}
			}
		}
	}
}

// addOwn keeps what the file holds, to write only what differs. A link is not what Holdfast writes, wherever it leads.
func (d *Directory) addOwn(fsys fs.FS, dir, name string, e fs.DirEntry) {
	own := Own{Name: name}
	if e.Type().IsRegular() && len(d.Own) < maxRead {
		if data, err, _ := content(fsys, path.Join(dir, name)); err == nil {
			own.data = data
		}
	}
	d.Own = append(d.Own, own)
}

// linkedDropins are the drop-in directories of networks that are links.
func (d *Directory) linkedDropins() []string {
	var all []string
	for _, f := range d.Files {
		if f.Dropins.Link {
			all = append(all, f.Dropins.Dir)
		}
	}
	return all
}

// holds reports whether the file is there with exactly these bytes.
func (d Directory) holds(name string, data []byte) bool {
	return slices.ContainsFunc(d.Own, func(o Own) bool { return o.Name == name && o.data != nil && string(o.data) == string(data) })
}

// Primary says what the runtime would load were none of Holdfast's own files there. At and Skipped are indexes of
// d.Files all the same.
func (d Directory) Primary(r Runtime) Loaded {
	var others Directory
	var at []int
	for i, f := range d.Files {
		if !IsOwn(f.Name) {
			others.Files, at = append(others.Files, f.withoutOwn()), append(at, i)
		}
	}
	loaded := others.Load(r)
	if loaded.At >= 0 {
		loaded.At = at[loaded.At]
	}
	for i, skipped := range loaded.Skipped {
		loaded.Skipped[i] = at[skipped]
	}
	return loaded
}

// withoutOwn is the file as if there were no own drop-ins.
func (f File) withoutOwn() File {
	f.Dropins.Files = slices.DeleteFunc(slices.Clone(f.Dropins.Files), func(drop Dropin) bool { return isOwnDropin(drop.Name) })
	return f
}

// gone reports that no file but own ones could become the list that the runtime loads: what is broken may be repaired,
// but what is not there, or is another network than the one the runtime is told to use, is not coming back.
func (d Directory) gone(r Runtime) bool {
	return !slices.ContainsFunc(d.Files, func(f File) bool {
		return !IsOwn(f.Name) && (r.Network == "" || f.Network == "" || f.Network == r.Network)
	})
}

// NoDropins says why no drop-in can chain a plugin of the type to the primary list; empty where one can, and where there
// is no such list to say.
func (d Directory) NoDropins(r Runtime, pluginType string) string {
	p := d.Primary(r)
	if p.Err != nil {
		return ""
	}
	f := d.Files[p.At]
	switch at := p.List.Find(pluginType); {
	case path.Ext(f.Name) != ".conflist":
		return f.Name + " is no .conflist, and only to one of those drop-ins are appended"
	case f.List.InlinedOnly():
		return f.Name + " says loadOnlyInlinedPlugins"
	case len(at) > 0:
		return p.From[at[0]] + " has an entry of " + pluginType + ", which no drop-in can replace"
	case f.Dropins.Link:
		return "the drop-in directory " + f.Dropins.Dir + " is a link, which Holdfast does not write through"
	case f.Dropins.Err != nil:
		return f.Dropins.Err.Error()
	}
	return ""
}
