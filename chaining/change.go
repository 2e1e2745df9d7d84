package chaining

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Put is a file to write.
type Put struct {
	Name string      // relative to the configuration directory, at most one directory deep
	Mode fs.FileMode // its permissions
	Data []byte
}

// Change is what to do in a configuration directory, in this order: first what is to be there, then what is not, so that
// no moment between has less of a chain than before.
type Change struct {
	Put    []Put
	Remove []string // names as in Put
}

// Empty: nothing is to be done.
func (c Change) Empty() bool { return len(c.Put) == 0 && len(c.Remove) == 0 }

// Change says what must change in the directory for the entry to be chained by the strategy; nothing where it is so
// already, byte for byte. Without a strategy it takes out everything of Holdfast's own. Files of others are never named.
//
// Where the primary list has the entry by itself, no own file is wanted. Where there is no list to chain to, own lists
// go, as one of a network plugin that is gone must not stay, while an own drop-in stays where the strategy is one that
// has them: nothing loads it, and it is there when the list comes back. Where there is one and it cannot be chained, that
// is the error, and whatever is on disk stays as it is: it was good once. The error wraps [ErrRefused] where the strategy
// cannot work on this list.
func (d Directory) Change(r Runtime, s Strategy, e Entry) (Change, error) {
	if s == "" {
		return Change{Remove: d.ownBut("")}, nil
	}
	switch {
	case !s.Valid():
		return Change{}, newFault(ErrRefused, "", "no strategy %s: give %s, %s or %s", quote(string(s)), ByCilium, ByDropin, ByList)
	case e.Type() == "":
		return Change{}, newFault(ErrEmpty, "", "the entry was never parsed: parse one first")
	}
	p := d.Primary(r)
	switch {
	case p.At < 0 && d.gone(r):
		return d.orphans(s), nil
	case p.Err != nil:
		return Change{}, fmt.Errorf("the list to chain to: %w", p.Err)
	case Check(p.List, e).Reason == Chained:
		return Change{Remove: d.ownBut("")}, nil
	case s == ByCilium:
		if len(d.Files[p.At].List.Find(e.Type())) == 0 {
			return Change{}, nil // what is there stays until Cilium's list has the entry
		}
		return Change{Remove: d.ownBut("")}, nil
	case r.Executables != nil && !r.Executables[e.Type()]:
		return Change{}, newFault(ErrNoPlugins, "", "no executable %s: install it into the runtime's bin directory before it is chained", e.Type())
	}
	file := d.dropin
	if s == ByList {
		file = d.list
	}
	put, err := file(r, p, e)
	if err != nil {
		return Change{}, err
	}
	c := Change{Remove: d.ownBut(put.Name)}
	if !d.holds(put.Name, put.Data) {
		c.Put = []Put{put}
	}
	return c, nil
}

// ownBut are the own files but one: lists first, as they hide what follows.
func (d Directory) ownBut(name string) []string {
	var lists, dropins []string
	for _, own := range d.Own {
		switch {
		case own.Name == name:
		case strings.Contains(own.Name, "/"):
			dropins = append(dropins, own.Name)
		default:
			lists = append(lists, own.Name)
		}
	}
	return append(lists, dropins...)
}

// orphans takes out what must not be there while there is no list to chain to.
func (d Directory) orphans(s Strategy) Change {
	var c Change
	for _, name := range d.ownBut("") {
		if s == ByList || !strings.Contains(name, "/") {
			c.Remove = append(c.Remove, name)
		}
	}
	return c
}

// dropin is the own file in the primary network's drop-in directory.
func (d Directory) dropin(r Runtime, p Loaded, e Entry) (Put, error) {
	if !r.Dropins {
		return Put{}, newFault(ErrRefused, "", "the runtime reads no drop-ins: choose another strategy, or run containerd 2.1 or CRI-O 1.33")
	}
	if no := d.NoDropins(r, e.Type()); no != "" {
		return Put{}, newFault(ErrRefused, "", "%s: choose another strategy, or correct it", no)
	}
	put := Put{Name: d.dropinName(d.Files[p.At]), Mode: 0o644, Data: append(e.Bytes(), '\n')}
	if err := fits(put.Name); err != nil {
		return Put{}, err
	}
	list, err := p.List.Append(e)
	if err != nil {
		return Put{}, fmt.Errorf("%s: %w", put.Name, err)
	}
	if err := libcniReadsDropin(put.Data); err != nil {
		return Put{}, fmt.Errorf("%s: %w", put.Name, err)
	}
	return put, chained(put.Name, list, e)
}

// dropinName sorts after all drop-ins of others. An own file that does so already keeps its name.
func (d Directory) dropinName(primary File) string {
	last := ""
	for _, drop := range primary.withoutOwn().Dropins.Files {
		last = max(last, drop.Name)
	}
	dir := primary.List.Name()
	for _, drop := range primary.Dropins.Files {
		if isOwnDropin(drop.Name) && drop.Name > last {
			return path.Join(dir, drop.Name)
		}
	}
	if last < ownDropin {
		return path.Join(dir, ownDropin)
	}
	return path.Join(dir, strings.TrimSuffix(last, ".conf")+lateDropin)
}

// list is the own list: what the runtime would load without it, with the entry appended. A runtime that reads drop-ins would
// append them to this list as well, ours of a former strategy among them: those of others are in it already, and it
// forbids the rest. So going from one strategy to the other never has the entry twice, or not at all.
func (d Directory) list(r Runtime, p Loaded, e Entry) (Put, error) {
	primary := d.Files[p.At]
	put := Put{Name: strings.TrimSuffix(primary.Name, path.Ext(primary.Name)) + ownList, Mode: primary.mode&0o644 | 0o600}
	if err := fits(put.Name); err != nil {
		return Put{}, err
	}
	list, err := p.List.only(e)
	if err == nil && r.Dropins {
		list, err = list.inline()
	}
	if err != nil {
		return Put{}, fmt.Errorf("%s: %w", put.Name, err)
	}
	put.Data = list.Bytes()
	if _, _, _, err := libcniReads(put.Data, true); err != nil {
		return Put{}, fmt.Errorf("%s: %w", put.Name, err)
	}
	return put, chained(put.Name, list, e)
}

// chained is asked of whatever is about to be written.
func chained(name string, l List, e Entry) error {
	if v := Check(l, e); v.Reason != Chained {
		return newFault(ErrInvalid, name, "would be %s: %s", v.Reason, v.Reason.Fix())
	}
	return nil
}

// only is the list with the entry last, and no other of its type. It is one edit, however many there are.
func (l List) only(e Entry) (List, error) {
	text := bytes.Clone(l.data[:l.spans[0].start])
	kept := 0
	for i, s := range l.spans {
		switch {
		case l.plugins[i].Type() == e.Type():
			continue
		case kept == 0:
			text = append(text, l.data[s.start:s.end]...)
		default:
			text = append(text, l.data[l.spans[i-1].end:s.end]...)
		}
		kept++
	}
	if kept > 0 {
		text = append(append(text, ','), l.lead()...)
	}
	text = append(text, e.data...)
	return Parse(append(text, l.data[l.spans[len(l.spans)-1].end:]...))
}

// inline is the list with loadOnlyInlinedPlugins, in its own style.
func (l List) inline() (List, error) {
	if l.inlinedOnly {
		return l, nil
	}
	root, err := parse(l.data)
	if err != nil {
		return List{}, err
	}
	if no := root.member(onlyInlined); no != nil {
		return l.splice(no.start, no.end, []byte("true"))
	}
	after := l.data[root.start+1:]
	lead := after[:len(after)-len(bytes.TrimLeft(after, space))]
	return l.splice(root.start+1, root.start+1, []byte(string(lead)+`"`+onlyInlined+`": true,`))
}

// fits refuses names that no file can have (Linux, NAME_MAX).
func fits(name string) error {
	if base := path.Base(name); len(base) > 255 {
		return newFault(ErrInvalid, "", "%s has a name too long to stand beside it: rename the file that it follows", quote(base))
	}
	return nil
}
