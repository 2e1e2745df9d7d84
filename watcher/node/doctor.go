package node

import (
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/holdfast-cni/holdfast/chaining"
)

// Options are what a person knows better than the files.
type Options struct {
	// ConfDir and Runtime are asked of the files where they are empty.
	ConfDir, Runtime string
	// Dropins: the runtime reads them, or not; nil: assume a current one, which does.
	Dropins *bool
	// Plugin is the entry that is to be chained. Nil: any of DefaultType, and only presence and place count.
	Plugin *chaining.Entry
	// PluginErr is why there is no Plugin though one was given.
	PluginErr error
}

// DefaultType is the type of plugin that is looked for where no plugin.json is given.
const DefaultType = "holdfast-cni"

// Names that tell Cilium's hand.
const (
	ciliumType = "cilium-cni"
	ciliumFile = "05-cilium.conflist"
)

// Diagnose explains a node from its files. An error is about an option or the directory, never about what is in it.
func Diagnose(fsys fs.FS, o Options) (Report, error) {
	host, err := FindHost(fsys, o)
	if err != nil {
		return Report{}, err
	}
	dir, err := chaining.ReadDirectory(fsys, inside(host.ConfDir))
	if err != nil {
		return Report{}, err
	}
	e := examination{fsys: fsys, host: host, dir: dir, plugin: o.Plugin, kind: DefaultType}
	if o.Plugin != nil {
		e.kind = o.Plugin.Type()
	}
	e.runtime = chaining.Runtime{SkipInvalid: host.Runtime == CRIO, Network: host.Network, Dropins: o.Dropins == nil || *o.Dropins, Executables: host.executables(fsys)}
	e.loaded = dir.Load(e.runtime)

	r := Report{Proof: "file", BinDirs: host.BinDirs, Ignored: e.ignored(), Notes: host.Notes,
		Runtime: Fact{host.Runtime, host.RuntimeWhy}, ConfDir: Fact{host.ConfDir, host.ConfDirWhy},
		Files: e.files(), Renamed: e.renamed(), Loaded: e.list(), Dropins: e.dropins(o.Dropins == nil)}
	choice := e.choose()
	if choice.Strategy != "" {
		r.Strategy = &Strategy{choice.Strategy, choice.Why}
	}
	if o.PluginErr != nil {
		r.Verdict = verdict(chaining.PluginConfigInvalid, o.PluginErr.Error())
	} else {
		r.Verdict = e.judge(choice)
	}
	r.Verdict.Type, r.Verdict.Compared = e.kind, o.Plugin != nil
	r.Verdict.Chained = r.Verdict.Reason == chaining.Chained
	return r, nil
}

type examination struct {
	fsys    fs.FS
	host    Host
	dir     chaining.Directory
	runtime chaining.Runtime
	loaded  chaining.Loaded
	plugin  *chaining.Entry
	kind    string
}

// judge gives one reason, the one to repair first.
func (e *examination) judge(choice chaining.Choice) Verdict {
	if file := e.passedOver(); file != "" {
		return verdict(chaining.BinaryMissing, fmt.Sprintf("%s is in none of the bin directories, so CRI-O passes over %s", e.kind, file))
	}
	if e.loaded.At < 0 {
		return verdict(chaining.NoNetworkList, e.loaded.Err.Error())
	}
	if e.loaded.Err != nil {
		return verdict(chaining.ListInvalid, e.loaded.Err.Error())
	}
	found := e.check()
	if found.Reason == chaining.EntryMissing {
		switch shadowed := e.dir.Shadowed(e.loaded, e.runtime, e.kind); {
		case shadowed != "":
			return verdict(chaining.ListShadowed, fmt.Sprintf("%s has the entry, %s is loaded", shadowed, e.file().Name), found.Differences...)
		case choice.Strategy == chaining.ByList && e.removed() != "":
			return verdict(chaining.StrategyRefused, fmt.Sprintf("%s is the list that was put aside", e.removed()), found.Differences...)
		}
	}
	if found.Reason != chaining.Chained {
		return verdict(found.Reason, "", found.Differences...)
	}
	if e.lacks(e.kind) {
		return verdict(chaining.BinaryMissing, fmt.Sprintf("%s is in none of the bin directories", e.kind))
	}
	return verdict(chaining.Chained, "")
}

// lacks: there are bin directories, and none has the executable.
func (e *examination) lacks(kind string) bool {
	return e.runtime.Executables != nil && !e.runtime.Executables[kind]
}

// passedOver is the list that CRI-O would load, had it the plugin's executable.
func (e *examination) passedOver() string {
	if !e.lacks(e.kind) {
		return ""
	}
	for _, i := range e.loaded.Skipped {
		if list, _, err := e.dir.Files[i].Chain(e.runtime); err == nil && len(list.Find(e.kind)) > 0 {
			return e.dir.Files[i].Name
		}
	}
	return ""
}

// check compares with plugin.json, or, without one, looks at presence and place alone.
func (e *examination) check() chaining.Verdict {
	if e.plugin != nil {
		return chaining.Check(e.loaded.List, *e.plugin)
	}
	at := e.loaded.List.Find(e.kind)
	if len(at) == 0 {
		return chaining.Verdict{Reason: chaining.EntryMissing}
	}
	return chaining.Check(e.loaded.List, e.loaded.List.Plugins()[at[len(at)-1]])
}

// choose takes what files tell for facts. That Cilium reads Holdfast's ConfigMap shows in Cilium's own file having the
// entry; three removals within ten minutes do not show, so removed is asked for on its own.
func (e *examination) choose() chaining.Choice {
	if e.loaded.Err != nil {
		return chaining.Choice{} // nothing to chain to
	}
	f := chaining.Facts{Dropins: e.runtime.Dropins}
	file := e.file()
	f.ConfigMapUsed = file.Name == ciliumFile && len(file.List.Find(e.kind)) > 0
	switch {
	case path.Ext(file.Name) != ".conflist":
		f.NoDropins = file.Name + " is no .conflist, and only to one of those drop-ins are appended"
	case file.List.InlinedOnly():
		f.NoDropins = file.Name + " says loadOnlyInlinedPlugins"
	}
	return chaining.Choose(f)
}

// removed is the file with the entry that Cilium has put aside, while Cilium's list is the one that counts.
func (e *examination) removed() string {
	if len(e.file().List.Find(ciliumType)) == 0 {
		return ""
	}
	for _, r := range e.dir.Renamed {
		if slices.Contains(r.Types, e.kind) {
			return r.Name
		}
	}
	return ""
}

// file is the one that counts; only where there is one.
func (e *examination) file() chaining.File { return e.dir.Files[e.loaded.At] }
