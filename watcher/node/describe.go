package node

import (
	"path"
	"slices"
	"strings"

	"github.com/holdfast-cni/holdfast/chaining"
)

func (e *examination) files() []File {
	all := make([]File, 0, len(e.dir.Files))
	for i, f := range e.dir.Files {
		said := File{Name: f.Name, Network: f.Network, Plugins: types(f.List), State: StateLater}
		_, _, err := f.Chain(e.runtime)
		switch {
		case slices.Contains(e.loaded.Skipped, i):
			said.State = StateSkipped
			if err == nil {
				err = f.Passed(e.runtime)
			}
		case i == e.loaded.At && err != nil:
			said.State = StateInvalid
		case i == e.loaded.At:
			said.State = StateLoaded
		}
		if err != nil {
			said.Error = strings.TrimPrefix(err.Error(), f.Name+": ")
		}
		all = append(all, said)
	}
	return all
}

func types(l chaining.List) []string {
	var all []string
	for _, p := range l.Plugins() {
		all = append(all, p.Type())
	}
	return all
}

func (e *examination) renamed() []Renamed {
	var all []Renamed
	for _, r := range e.dir.Renamed {
		all = append(all, Renamed{Name: r.Name, By: "Cilium", Plugins: r.Types, Ours: slices.Contains(r.Types, e.kind)})
	}
	return all
}

func (e *examination) list() *Loaded {
	if e.loaded.At < 0 {
		return nil
	}
	l := &Loaded{File: e.file().Name, Why: e.why(), Network: e.loaded.List.Name(), CNIVersion: e.loaded.List.CNIVersion()}
	for i, p := range e.loaded.List.Plugins() {
		said := Plugin{Type: p.Type(), From: e.loaded.From[i], Entry: p.Type() == e.kind}
		if said.Binary = e.host.binary(e.fsys, p.Type()); e.lacks(p.Type()) {
			said.Binary = Missing
		}
		l.Plugins = append(l.Plugins, said)
	}
	return l
}

// why says in half a sentence why this file and no other counts.
func (e *examination) why() string {
	switch {
	case !e.runtime.SkipInvalid:
		return "the first by name; containerd loads no other, not even where this one is invalid"
	case e.runtime.Network != "":
		return "the first valid one of the network " + e.runtime.Network + ", which CRI-O is told to use"
	case e.loaded.Err != nil:
		return "the first by name that CRI-O may load, though it cannot be chained"
	}
	return "the first valid one by name; CRI-O passes over others"
}

func (e *examination) dropins(why string) Dropins {
	d := Dropins{Read: e.runtime.Dropins, Why: why}
	if e.loaded.At >= 0 {
		found := e.file().Dropins
		d.Dir, d.Link = found.Dir, found.Link
		for _, f := range found.Files {
			d.Files = append(d.Files, path.Join(found.Dir, f.Name))
		}
	}
	return d
}

// ignored leaves out links that are drop-in directories.
func (e *examination) ignored() []string {
	return slices.DeleteFunc(slices.Clone(e.dir.Ignored), func(name string) bool {
		return slices.ContainsFunc(e.dir.Files, func(f chaining.File) bool { return f.Dropins.Dir == name })
	})
}
