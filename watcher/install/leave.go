package install

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/chaining/store"
	"github.com/holdfast-cni/holdfast/watcher/node"
)

// leave takes everything of ours out of the node, in an order in which no pod is ever caught between an entry and its
// executable: closed, chain out, proved out, executable out, temporary files out, taint and condition off, and last the
// label that keeps this pod here.
//
// An executable that a list still names stays: a pod whose list names one that is missing never ends. Without its agent
// holdfast-cni is the stub that is wanted then: it succeeds at DEL, passes pods that are not governed, and refuses governed
// ones.
func (l *loop) leave(ctx context.Context, n *corev1.Node, entry chaining.Entry, leaving bool) time.Duration {
	l.gate, l.said = nil, wanted{}
	const busy = "Holdfast is being taken out of this node"
	if next := l.publish(ctx, kept(false, chaining.Starting, busy)); next < resync {
		return next
	}
	kind := entry.Type()
	if kind == "" { // plugin.json is broken or gone
		kind = node.DefaultType
	}
	still, err := l.takeOut(ctx, kind, leaving)
	if err != nil {
		l.teller.failed("the node cannot be taken out yet", err)
		return time.Second
	}
	message := "nothing of Holdfast's is left on this node"
	if still != "" {
		message = "Holdfast's files are gone but for the executable " + kind + ": " + still
	}
	if next := l.publish(ctx, gone()); next < resync {
		return next
	}
	l.teller.left(n, message)
	l.nudger.healed()
	return resync
}

// takeOut returns why the executable stays, or an error for what is still to be done.
func (l *loop) takeOut(ctx context.Context, kind string, leaving bool) (still string, err error) {
	o := node.Options{ConfDir: l.options.ConfDir}
	x, err := l.examine(ctx, &o)
	if err != nil {
		return "", err
	}
	change, err := x.Directory.Change(x.As, "", chaining.Entry{})
	if err != nil {
		return "", err
	}
	if !change.Empty() {
		l.placed = nil
		if err := l.apply(change); err != nil {
			return "", err
		}
		if x, err = l.examine(ctx, &o); err != nil {
			return "", err
		}
	}
	if still, err = l.named(ctx, &o, x, kind, leaving); err != nil {
		return "", err
	}
	if still == "" {
		if err := l.removeExecutable(x.Host, kind); err != nil {
			return "", err
		}
	}
	for _, r := range x.Directory.Renamed {
		if chaining.IsOwn(strings.TrimSuffix(r.Name, chaining.RenamedBy)) {
			if err := store.RemoveFile(l.conf, r.Name); err != nil {
				return "", err
			}
		}
	}
	l.sweep(x.Host)
	return still, nil
}

// removeExecutable removes what was installed here, and nothing else of that name.
func (l *loop) removeExecutable(host node.Host, kind string) error {
	for _, dir := range host.BinDirs {
		at, err := l.hostPath(dir)
		if err != nil || l.binary.source == "" || !l.binary.is(filepath.Join(at, kind)) {
			continue
		}
		if err := store.RemoveFile(at, kind); err != nil {
			return err
		}
	}
	return nil
}

// named reports which list names the plugin still. One that the runtime has loaded is waited for, unless it is Cilium's and only
// this node leaves: then the list is that of all nodes, and names the plugin for good.
func (l *loop) named(ctx context.Context, o *node.Options, x node.Examination, kind string, leaving bool) (still string, err error) {
	if o.AnswerErr != nil {
		return "", o.AnswerErr
	}
	loaded := x.Directory.Load(x.As).List
	for _, list := range []*chaining.List{&loaded, o.Answer.Loaded} {
		if list == nil || len(list.Find(kind)) == 0 {
			continue
		}
		if leaving || list != &loaded {
			if due, _ := l.nudger.due(time.Now()); due {
				l.poke(targetRuntime)
			}
		}
		if leaving || list != &loaded && len(loaded.Find(kind)) == 0 {
			return "", fmt.Errorf("network %s, which the runtime loads, names %s still", list.Name(), kind)
		}
		return fmt.Sprintf("network %s names it, which is another's file", list.Name()), nil
	}
	if cached(l.fsys, kind) {
		return "running pods were started with it", nil
	}
	return "", nil
}
