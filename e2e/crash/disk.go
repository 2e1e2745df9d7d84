package crash

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Kind is what an operation does.
type Kind string

// The kinds. What a file holds, and its mode, count as one.
const (
	Create  Kind = "create"
	Content Kind = "content"
	Sync    Kind = "sync" // of a file, or of the names in a directory
	Mkdir   Kind = "mkdir"
	Remove  Kind = "remove" // a file or a directory
	Rename  Kind = "rename"
)

// Op is one operation on a file system, that succeeded.
type Op struct {
	Kind     Kind
	Path, To string
	Data     []byte
	Mode     fs.FileMode
}

// File is a file, or, by its mode, a directory.
type File struct {
	Data []byte
	Mode fs.FileMode
}

// Tree is what is in a file system, by path.
type Tree map[string]File

// Disk is a file system that remembers what a power loss would leave: nothing but what was synced for certain, and of the
// rest anything. It is harsher than any real one: each change of a name may come to the disk or not, whatever the others
// do, and so may what a file holds, whole, in part or as zeros.
type Disk struct {
	root *inode
	dirs []*inode // all there ever were
}

type inode struct {
	mode      fs.FileMode
	now, kept File              // of a file
	names     map[string]*inode // of a directory
	synced    map[string]*inode
	pending   []change
}

// change is one of the names in a directory.
type change struct {
	remove, add string
	inode       *inode
}

func (c change) apply(names map[string]*inode) {
	delete(names, c.remove)
	if c.add != "" {
		names[c.add] = c.inode
	}
}

// NewDisk starts with a tree that is on the disk for certain.
func NewDisk(t Tree) *Disk {
	d := &Disk{}
	d.root = d.directory(fs.ModeDir | 0o755)
	for _, name := range slices.Sorted(maps.Keys(t)) { // parents first
		parent, base := d.parent(name)
		node := &inode{mode: t[name].Mode, now: t[name], kept: t[name]}
		if t[name].Mode.IsDir() {
			node = d.directory(t[name].Mode)
		}
		parent.names[base], parent.synced[base] = node, node
	}
	return d
}

func (d *Disk) directory(mode fs.FileMode) *inode {
	node := &inode{mode: mode, names: map[string]*inode{}, synced: map[string]*inode{}}
	d.dirs = append(d.dirs, node)
	return node
}

func (d *Disk) parent(name string) (*inode, string) {
	dir, base := path.Split(strings.Trim(name, "/"))
	at := d.root
	for _, step := range strings.Split(strings.Trim(dir, "/"), "/") {
		if step == "" {
			continue
		}
		next := at.names[step]
		if next == nil {
			next = d.directory(fs.ModeDir | 0o755)
			at.names[step], at.synced[step] = next, next
		}
		at = next
	}
	return at, base
}

// Do carries out an operation. It must be one that succeeded on such a file system.
func (d *Disk) Do(op Op) error {
	parent, base := d.parent(op.Path)
	node := parent.names[base]
	switch op.Kind {
	case Create:
		if node == nil {
			node = &inode{kept: File{Mode: 0o600}}
			parent.change(change{add: base, inode: node})
		}
		node.now = File{op.Data, op.Mode}
	case Mkdir:
		parent.change(change{add: base, inode: d.directory(op.Mode)})
	case Remove:
		parent.change(change{remove: base})
	case Rename:
		to, name := d.parent(op.To)
		if node == nil || to != parent {
			return fmt.Errorf("%s %s to %s: not in one directory", op.Kind, op.Path, op.To)
		}
		parent.change(change{remove: base, add: name, inode: node})
	default:
		switch {
		case base == "":
			node = d.root
		case node == nil:
			return fmt.Errorf("%s %s: no such file", op.Kind, op.Path)
		}
		node.touch(op)
	}
	return nil
}

func (n *inode) change(c change) {
	c.apply(n.names)
	n.pending = append(n.pending, c)
}

func (n *inode) touch(op Op) {
	switch {
	case op.Kind == Sync && n.names != nil:
		n.synced, n.pending = maps.Clone(n.names), nil
	case op.Kind == Sync:
		n.kept = n.now
	case n.names != nil:
		n.mode = op.Mode
	default:
		n.now = File{op.Data, op.Mode}
	}
}

// Now is what is there while the power is on.
func (d *Disk) Now() Tree {
	t := Tree{}
	d.root.fill(t, "", func(n *inode) map[string]*inode { return n.names }, func(n *inode) File { return n.now })
	return t
}

// most bounds how many changes of names are tried in all combinations; the store never has as many unsynced.
const most = 8

// Lost are the trees that a power loss now may leave.
func (d *Disk) Lost() []Tree {
	type at struct {
		dir   *inode
		index int
	}
	var pending []at
	for _, dir := range d.dirs {
		for i := range dir.pending {
			pending = append(pending, at{dir, i})
		}
	}
	pending = pending[max(0, len(pending)-most):]
	var all []Tree
	for mask := range 1 << len(pending) {
		came := map[at]bool{}
		for i, p := range pending {
			came[p] = mask>>i&1 == 1
		}
		names := func(n *inode) map[string]*inode {
			names := maps.Clone(n.synced)
			for i, c := range n.pending {
				if came[at{n, i}] {
					c.apply(names)
				}
			}
			return names
		}
		for _, content := range contents {
			t := Tree{}
			d.root.fill(t, "", names, content)
			if !slices.ContainsFunc(all, t.Equal) {
				all = append(all, t)
			}
		}
	}
	return all
}

// contents are what an unsynced file may hold.
var contents = []func(*inode) File{
	func(n *inode) File { return n.kept },
	func(n *inode) File { return n.now },
	func(n *inode) File { return n.unless(n.now.Data[:len(n.now.Data)/2]) },
	func(n *inode) File { return n.unless(make([]byte, len(n.now.Data))) },
}

func (n *inode) unless(lost []byte) File {
	if bytes.Equal(n.now.Data, n.kept.Data) {
		return n.kept
	}
	return File{lost, n.now.Mode}
}

func (n *inode) fill(t Tree, at string, names func(*inode) map[string]*inode, content func(*inode) File) {
	for name, kid := range names(n) {
		full := path.Join(at, name)
		if kid.names == nil {
			t[full] = content(kid)
			continue
		}
		t[full] = File{Mode: kid.mode | fs.ModeDir}
		kid.fill(t, full, names, content)
	}
}

// Equal compares content and modes.
func (t Tree) Equal(u Tree) bool {
	return maps.EqualFunc(t, u, func(a, b File) bool { return a.Mode == b.Mode && bytes.Equal(a.Data, b.Data) })
}
