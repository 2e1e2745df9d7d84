package chaining

import (
	"fmt"
	"path"
)

// Runtime is how a container runtime picks the list it loads.
type Runtime struct {
	// SkipInvalid: CRI-O goes on to the next file where one cannot be loaded (ocicni, loadNetworks); to containerd it is an
	// error (go-cni, loadFromConfDir).
	SkipInvalid bool
	// Network is the only one that counts, by name: CRI-O's cni_default_network. Empty: the first.
	Network string
	// Dropins: libcni v1.3.0 or later, as in containerd 2.1 and CRI-O 1.33.
	Dropins bool
	// Executables are those in the runtime's bin directories; nil: not known. CRI-O passes over a list that names another
	// (libcni's ValidateNetworkList); containerd loads it, and its pods fail.
	Executables map[string]bool
}

// Loaded is what a runtime would load of a directory.
type Loaded struct {
	// At is the index in Directory.Files of the file that counts; -1 where there is none.
	At int
	// List is the file's list with the drop-ins appended; zero if Err is set.
	List List
	// From names the file of each plugin of List, within the directory.
	From []string
	// Err is why there is no list that could be chained: ErrNoList, or what is wrong with the one that counts.
	Err error
	// Skipped are the indexes of files before At that the runtime passes over.
	Skipped []int
}

// Load says what the runtime would load. Where the runtime is laxer than Holdfast, the file counts and Err says why it
// cannot be chained: what cannot be judged is not passed over. CRI-O also asks each
// plugin whether it knows the list's version; that is taken for granted.
func (d Directory) Load(r Runtime) Loaded {
	loaded := Loaded{At: -1}
	for i, f := range d.Files {
		if f.Passed(r) != nil {
			loaded.Skipped = append(loaded.Skipped, i)
			continue
		}
		loaded.At = i
		loaded.List, loaded.From, loaded.Err = f.Chain(r)
		if loaded.Err != nil {
			loaded.List, loaded.From = List{}, nil
		}
		return loaded
	}
	switch {
	case len(d.Files) == 0:
		loaded.Err = newFault(ErrNoList, "", "no file ends in .conf, .conflist or .json")
	case r.Network != "":
		loaded.Err = newFault(ErrNoList, "", "no valid file has the network %s, which the runtime is told to use", quote(r.Network))
	default:
		loaded.Err = newFault(ErrNoList, "", "no file is valid, and the runtime passes over each")
	}
	return loaded
}

// refused is why the runtime does not load the file.
func (f File) refused(r Runtime) error {
	if f.Refused != nil {
		return f.Refused
	}
	if f.hasDropins(r) {
		if err := f.Dropins.Refused(); err != nil {
			return err
		}
		if len(f.Dropins.Files) > 0 {
			return nil
		}
	}
	if f.empty {
		return f.Err // nothing of its own, and nothing to add
	}
	return nil
}

// lacks is the first plugin of the file whose executable CRI-O does not find; empty where it finds all.
func (f File) lacks(r Runtime) string {
	list, _, err := f.Chain(r)
	if err != nil || !r.SkipInvalid || r.Executables == nil {
		return ""
	}
	for _, p := range list.plugins {
		if !r.Executables[p.Type()] {
			return p.Type()
		}
	}
	return ""
}

// Passed is why the runtime passes over the file, or would, did it look at it; nil where it does not.
func (f File) Passed(r Runtime) error {
	if !r.SkipInvalid {
		return nil
	}
	if err := f.refused(r); err != nil {
		return err
	}
	if plugin := f.lacks(r); plugin != "" {
		return newFault(ErrNoPlugins, "", "no executable %s: install it into the runtime's bin directory", plugin)
	}
	if r.Network != "" && f.Network != "" && f.Network != r.Network {
		return newFault(ErrNoList, "", "not the network %s, which the runtime is told to use", quote(r.Network))
	}
	return nil
}

// hasDropins is whether the runtime looks for them: [ReadDirectory] has already left out lists that forbid it.
func (f File) hasDropins(r Runtime) bool { return r.Dropins && f.Dropins.Dir != "" }

// Chain is the file's list with its drop-ins, and the file that each plugin is from; or what is wrong with the first that
// cannot be chained.
func (f File) Chain(r Runtime) (List, []string, error) {
	if f.Err != nil {
		return List{}, nil, fmt.Errorf("%s: %w", f.Name, f.Err)
	}
	list := f.List
	from := make([]string, len(list.plugins))
	for i := range from {
		from[i] = f.Name
	}
	if !f.hasDropins(r) {
		return list, from, nil
	}
	if f.Dropins.Err != nil {
		return List{}, nil, f.Dropins.Err
	}
	var entries []Entry
	for _, drop := range f.Dropins.Files {
		name := path.Join(f.Dropins.Dir, drop.Name)
		if drop.Err != nil {
			return List{}, nil, fmt.Errorf("%s: %w", name, drop.Err)
		}
		entries, from = append(entries, drop.Entry), append(from, name)
	}
	list, err := list.appendAll(entries)
	if err != nil {
		return List{}, nil, fmt.Errorf("%s with its drop-ins: %w", f.Name, err)
	}
	return list, from, nil
}

// Shadowed names the first file, other than the one that counts, whose own list or drop-ins have a plugin of the type.
// Empty: there is none.
func (d Directory) Shadowed(l Loaded, r Runtime, pluginType string) string {
	for i, f := range d.Files {
		if i == l.At || f.Err != nil {
			continue
		}
		if list, _, err := f.Chain(r); err == nil && len(list.Find(pluginType)) > 0 {
			return f.Name
		}
	}
	return ""
}
