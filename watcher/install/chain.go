package install

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
	"github.com/holdfast-cni/holdfast/watcher/cri"
	"github.com/holdfast-cni/holdfast/watcher/node"
)

// stood is how long a list must stay once the strategy was refused, before it counts: what Cilium removes within a second
// is no chain.
const stood = 10 * time.Second

// chain looks at the node, repairs what it may, and returns the verdict with what it was made from.
func (l *loop) chain(ctx context.Context, o node.Options) (node.Examination, node.Verdict) {
	now := time.Now()
	o.Removals = l.removals.Count(now)
	x, err := l.examine(ctx, &o)
	if err != nil {
		return x, node.NewVerdict(chaining.NoNetworkList, err.Error())
	}
	l.countRemovals(now, x.Directory)
	if o.Plugin == nil {
		return x, x.Report.Verdict
	}
	if reason, message := l.executable(ctx, x, *o.Plugin); reason != chaining.Chained {
		return x, node.NewVerdict(reason, message)
	}
	if l.mayTry(now, x) {
		x, err = l.repair(ctx, &o, x)
		if err != nil {
			return x, node.NewVerdict(worst(x, err), err.Error())
		}
	}
	x = l.settle(ctx, &o, x)
	if v := x.Report.Verdict; v.Reason == chaining.Chained && x.Choice.Refused == chaining.StrategyRefused && len(x.Directory.Own) > 0 && now.Sub(l.triedAt) < stood {
		return x, node.NewVerdict(chaining.StrategyRefused, x.Choice.Why)
	}
	return x, x.Report.Verdict
}

// worst is the reason for an error of a repair: what is wrong with the list, else that it could not be done.
func worst(x node.Examination, err error) chaining.Reason {
	switch {
	case errors.Is(err, chaining.ErrRefused):
		return chaining.StrategyRefused
	case x.Report.Verdict.Reason != chaining.Chained:
		return x.Report.Verdict.Reason
	}
	return chaining.EntryMissing
}

// examine asks the runtime, arms the watches, and reads the files.
func (l *loop) examine(ctx context.Context, o *node.Options) (node.Examination, error) {
	l.ask(ctx, o)
	host, err := node.FindHost(l.fsys, *o)
	if err != nil {
		return node.Examination{}, err
	}
	l.arm(host, o)
	x, err := node.Examine(l.fsys, *o)
	if err == nil && !l.swept {
		l.sweep(x.Host)
	}
	return x, err
}

// ask puts the runtime's answer into the options.
func (l *loop) ask(ctx context.Context, o *node.Options) {
	if err := l.dial(ctx); err != nil {
		o.Answer, o.AnswerErr = nil, err
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	o.Answer, o.AnswerErr = l.runtime.Ask(ctx)
	if o.Answer != nil && l.options.BinDir != "" {
		o.Answer.BinDirs = []string{l.options.BinDir}
	}
}

var errNoSocket = errors.New("no socket of a runtime was found; set chain.criSocket")

// dial connects to the runtime's socket, and again to another where the node's files name another.
func (l *loop) dial(ctx context.Context) error {
	socket := l.options.Socket
	if socket == "" {
		socket, _ = node.FindSocket(l.fsys)
	}
	if socket == "" {
		return errNoSocket
	}
	if l.runtime != nil && l.socket == socket {
		return nil
	}
	if l.runtime != nil {
		l.unfollow()
		_ = l.runtime.Close() // nothing is lost with it
		l.runtime = nil
	}
	at, err := l.hostPath(socket)
	if err != nil {
		return err
	}
	runtime, err := cri.Dial(at, socket)
	if err != nil {
		return err
	}
	l.runtime, l.socket = runtime, socket
	ctx, l.unfollow = context.WithCancel(ctx)
	go runtime.Follow(ctx, l.wake)
	return nil
}

// arm watches the directories that are about to be read: the configuration directory with its drop-in directories, and the
// bin directories for the plugin's executable.
func (l *loop) arm(host node.Host, o *node.Options) {
	kind := node.DefaultType
	if o.Plugin != nil {
		kind = o.Plugin.Type()
	}
	var wants []want
	l.conf = ""
	if conf, err := l.hostPath(host.ConfDir); err == nil {
		l.conf = conf
		wants = append(wants, want{dir: conf})
		for _, dir := range directories(conf) {
			wants = append(wants, want{dir: dir})
		}
	} else if parent, err := l.existing(host.ConfDir); err == nil {
		wants = append(wants, want{dir: parent})
	}
	for _, dir := range host.BinDirs {
		if at, err := l.hostPath(dir); err == nil {
			wants = append(wants, want{dir: at, only: kind})
		}
	}
	l.watch.follows(wants)
}

// countRemovals counts what somebody else took away since it was put there.
func (l *loop) countRemovals(now time.Time, d chaining.Directory) {
	l.placed = slices.DeleteFunc(l.placed, func(name string) bool {
		gone := !slices.ContainsFunc(d.Own, func(o chaining.Own) bool { return o.Name == name })
		if gone {
			l.removals.Add(now)
			l.metrics.removals.Inc()
			l.teller.repaired("somebody removed a file of ours", "path", name)
		}
		return gone
	})
}

// executable keeps the plugin's own in place before anything names it.
func (l *loop) executable(ctx context.Context, x node.Examination, entry chaining.Entry) (chaining.Reason, string) {
	dirs := x.Host.BinDirs
	if l.options.BinDir != "" {
		dirs = []string{l.options.BinDir}
	}
	version := ""
	if primary := x.Directory.Primary(x.As); primary.Err == nil {
		version = cmp.Or(primary.List.CNIVersion(), "0.1.0") // CNI specification, section 1: where none is given
	}
	reason, message, installed := l.binary.ensure(ctx, l.fsys, dirs, entry.Type(), version)
	if installed {
		l.metrics.repaired("binary")
		l.teller.repaired("the plugin's executable was installed", "path", entry.Type())
	}
	return reason, message
}

// mayTry: a refused strategy is tried once a minute.
func (l *loop) mayTry(now time.Time, x node.Examination) bool {
	return x.Choice.Refused == chaining.Chained || x.Choice.Refused == chaining.StrategyRefused && !now.Before(l.removals.NextTry(now))
}

// repair writes what the strategy wants and is not there, and looks again.
func (l *loop) repair(ctx context.Context, o *node.Options, x node.Examination) (node.Examination, error) {
	if x.Choice.Strategy == "" {
		return x, nil // there is nothing to chain to, which the verdict says
	}
	as := x.As
	as.Executables = nil // the plugin's own was seen to
	change, err := x.Directory.Change(as, x.Choice.Strategy, *o.Plugin)
	if err != nil || change.Empty() {
		return x, err
	}
	if err := l.apply(change); err != nil {
		return x, err
	}
	l.metrics.repaired(string(x.Choice.Strategy))
	l.teller.repaired("the chain was written", "strategy", x.Choice.Strategy, "path", changed(change))
	return l.examine(ctx, o)
}

// apply writes, and has the runtime look where it does not see what was written: it watches no sub-directory.
func (l *loop) apply(change chaining.Change) error {
	for _, name := range change.Remove {
		l.placed = slices.DeleteFunc(l.placed, func(placed string) bool { return placed == name })
	}
	if err := store.Apply(l.conf, change); err != nil {
		return err
	}
	l.triedAt = time.Now()
	for _, put := range change.Put {
		if !slices.Contains(l.placed, put.Name) {
			l.placed = append(l.placed, put.Name)
		}
	}
	if slices.ContainsFunc(changed(change), func(name string) bool { return path.Dir(name) != "." }) {
		l.poke(targetRuntime)
	}
	return nil
}

// poke makes whoever watches the configuration directory look at it.
func (l *loop) poke(target string) {
	if err := store.Nudge(l.conf); err != nil {
		l.teller.failed("the configuration directory cannot be nudged", err)
		return
	}
	l.metrics.nudged(target)
}

// settle gives the runtime the moment it needs to load what is on disk.
func (l *loop) settle(ctx context.Context, o *node.Options, x node.Examination) node.Examination {
	for wait, waited := 2*time.Millisecond, time.Duration(0); x.Report.Verdict.Reason == chaining.RuntimeNotLoaded && o.AnswerErr == nil && waited < loadTime; wait *= 2 {
		select {
		case <-ctx.Done():
			return x
		case <-time.After(wait):
		}
		waited += wait
		again, err := l.examine(ctx, o)
		if err != nil {
			return x
		}
		x = again
	}
	return x
}

func changed(c chaining.Change) []string {
	names := slices.Clone(c.Remove)
	for _, put := range c.Put {
		names = append(names, put.Name)
	}
	return names
}
