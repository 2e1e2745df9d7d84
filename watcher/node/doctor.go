package node

import (
	"fmt"
	"io/fs"
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
	// Answer is what the runtime itself says, where it was asked; AnswerErr why it did not answer. Then the verdict needs both
	// the files and what was loaded of them.
	Answer    *Answer
	AnswerErr error
	// Strategy is the only one allowed; empty: choose.
	Strategy chaining.Strategy
	// ConfigMapUsed: Cilium is configured to read Holdfast's ConfigMap on this node, or not; nil: take Cilium's file for it.
	ConfigMapUsed *bool
	// Removals of Holdfast's own files by others within ten minutes, where they were counted.
	Removals int
}

// What a verdict rests on.
const (
	ProofFile    = "file"    // the files alone
	ProofRuntime = "runtime" // what the runtime has loaded of them
)

// DefaultType is the type of plugin that is looked for where no plugin.json is given.
const DefaultType = "holdfast-cni"

// Names that tell Cilium's hand.
const (
	ciliumType = "cilium-cni"
	ciliumFile = "05-cilium.conflist"
)

// Diagnose explains a node from its files, and from what its runtime says if it was asked. An error is about an option or
// the directory, never about what is in it.
func Diagnose(fsys fs.FS, o Options) (Report, error) {
	x, err := Examine(fsys, o)
	return x.Report, err
}

// Examination is a report with what it was made from.
type Examination struct {
	Report    Report
	Host      Host
	Directory chaining.Directory
	// As is how the runtime reads the directory.
	As     chaining.Runtime
	Choice chaining.Choice
}

// Examine looks at a node; see [Diagnose].
func Examine(fsys fs.FS, o Options) (Examination, error) {
	host, err := FindHost(fsys, o)
	if err != nil {
		return Examination{}, err
	}
	dir, err := chaining.ReadDirectory(fsys, inside(host.ConfDir))
	if err != nil {
		return Examination{Host: host}, err
	}
	e := examination{fsys: fsys, host: host, dir: dir, options: &o, kind: DefaultType}
	if o.Plugin != nil {
		e.kind = o.Plugin.Type()
	}
	dropins, why := o.dropins()
	e.runtime = chaining.Runtime{SkipInvalid: host.Runtime == CRIO, Network: host.Network, Dropins: dropins, Executables: host.executables(fsys)}
	e.loaded = dir.Load(e.runtime)

	r := Report{Proof: ProofFile, BinDirs: host.BinDirs, Ignored: e.ignored(), Notes: host.Notes,
		Runtime: Fact{host.Runtime, host.RuntimeWhy}, ConfDir: Fact{host.ConfDir, host.ConfDirWhy}, Asked: o.Answer.asked(),
		Files: e.files(), Renamed: e.renamed(), Loaded: e.list(), Dropins: e.dropins(why)}
	if o.Answer != nil && o.Answer.Tells {
		r.Proof = ProofRuntime
	}
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
	return Examination{Report: r, Host: host, Directory: dir, As: e.runtime, Choice: choice}, nil
}

// dropins reports whether the runtime reads them, and why that is thought.
func (o *Options) dropins() (read bool, why string) {
	switch {
	case o.Dropins != nil:
		return *o.Dropins, "--drop-ins"
	case o.Answer != nil:
		return o.Answer.Dropins(), fmt.Sprintf("%s %s; containerd reads them as of 2.1, CRI-O as of 1.33", o.Answer.Runtime, o.Answer.Version)
	}
	return true, "assumed, as of containerd 2.1 and CRI-O 1.33; --drop-ins=false says otherwise"
}

type examination struct {
	fsys    fs.FS
	host    Host
	dir     chaining.Directory
	runtime chaining.Runtime
	loaded  chaining.Loaded
	options *Options
	kind    string
}

// judge gives one reason, the one to repair first.
func (e *examination) judge(choice chaining.Choice) Verdict {
	files := e.judgeFiles(choice)
	if files.Reason != chaining.Chained || e.options.Answer == nil && e.options.AnswerErr == nil {
		return files
	}
	return e.judgeLoaded(e.options.Answer, e.options.AnswerErr)
}

// judgeFiles says what the runtime would load of the files.
func (e *examination) judgeFiles(choice chaining.Choice) Verdict {
	if file := e.passedOver(); file != "" {
		return verdict(chaining.BinaryMissing, fmt.Sprintf("%s is in none of the bin directories, so CRI-O passes over %s", e.kind, file))
	}
	if e.loaded.At < 0 {
		return verdict(chaining.NoNetworkList, e.loaded.Err.Error())
	}
	if e.loaded.Err != nil {
		return verdict(chaining.ListInvalid, e.loaded.Err.Error())
	}
	if e.orphaned() {
		return verdict(chaining.NoNetworkList, fmt.Sprintf("only %s is there, which Holdfast made of a list that is gone", e.file().Name))
	}
	if primary := e.dir.Primary(e.runtime); chaining.IsOwn(e.file().Name) && primary.Err != nil {
		return verdict(chaining.ListInvalid, fmt.Sprintf("%s; the last copy of it, %s, is loaded meanwhile", primary.Err, e.file().Name))
	}
	found := e.check(e.loaded.List)
	if found.Reason == chaining.EntryMissing {
		switch shadowed := e.dir.Shadowed(e.loaded, e.runtime, e.kind); {
		case shadowed != "":
			return verdict(chaining.ListShadowed, fmt.Sprintf("%s has the entry, %s is loaded", shadowed, e.file().Name), found.Differences...)
		case choice.Refused != chaining.Chained:
			return verdict(choice.Refused, choice.Why, found.Differences...)
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
func (e *examination) check(list chaining.List) chaining.Verdict {
	if e.options.Plugin != nil {
		return chaining.Check(list, *e.options.Plugin)
	}
	at := list.Find(e.kind)
	if len(at) == 0 {
		return chaining.Verdict{Reason: chaining.EntryMissing}
	}
	return chaining.Check(list, list.Plugins()[at[len(at)-1]])
}

// choose takes what files tell for facts, as if Holdfast's own were not there. That Cilium reads Holdfast's ConfigMap shows
// in Cilium's own file having the entry; three removals within ten minutes do not show, so removed is asked for on its own.
func (e *examination) choose() chaining.Choice {
	primary := e.dir.Primary(e.runtime)
	if primary.Err != nil && !e.orphaned() {
		return chaining.Choice{} // nothing to chain to
	}
	used := false
	if primary.At >= 0 {
		file := e.dir.Files[primary.At]
		used = file.Name == ciliumFile && len(file.List.Find(e.kind)) > 0
	}
	if e.options.ConfigMapUsed != nil {
		used = *e.options.ConfigMapUsed
	}
	return chaining.Choose(chaining.Facts{
		Forced:        e.options.Strategy,
		Removals:      e.options.Removals,
		Dropins:       e.runtime.Dropins,
		NoDropins:     e.dir.NoDropins(e.runtime, e.kind),
		ConfigMapUsed: used,
	})
}

// orphaned: what would be loaded is a list of Holdfast's own, and there is none that it could follow.
func (e *examination) orphaned() bool {
	return e.loaded.Err == nil && e.dir.Primary(e.runtime).At < 0
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
