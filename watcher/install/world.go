package install

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// world is what is looked at on the API server: this Node, the release's ConfigMap, and Cilium's settings.
type world struct {
	options      *Options
	node, config *feed.Feed
	cilium       *feed.Cilium // nil: the network is not Cilium's
}

func newWorld(c *feed.Clients, o *Options) *world {
	w := &world{
		options: o,
		node:    feed.New("Node "+o.Node, &corev1.Node{}, feed.WithName(feed.Of(c, c.Kube.CoreV1().Nodes()), o.Node), stripNode),
		config:  feed.ConfigMap(c, o.Namespace, watcher.ConfigName(o.Release)),
	}
	if o.Cilium {
		w.cilium = feed.NewCilium(c, o.CiliumNamespace)
	}
	return w
}

// stripNode leaves out what is large and of no concern.
func stripNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Node{TypeMeta: node.TypeMeta, ObjectMeta: node.ObjectMeta}
	slim.ManagedFields = nil
	slim.Spec.Taints = node.Spec.Taints
	for _, c := range node.Status.Conditions {
		if c.Type == watcher.ChainedCondition {
			slim.Status.Conditions = append(slim.Status.Conditions, c)
		}
	}
	return slim, nil
}

// start runs every feed until the context ends, and calls changed after each change.
func (w *world) start(ctx context.Context, changed func()) (wait func()) {
	var group sync.WaitGroup
	run := func(ctx context.Context, f *feed.Feed) { group.Go(func() { f.Run(ctx) }) }
	feeds := []*feed.Feed{w.node, w.config}
	if w.cilium != nil {
		w.cilium.Start(ctx, run, changed)
		feeds = append(feeds, w.cilium.Feeds()...)
	}
	for _, f := range feeds {
		f.Subscribe(changed)
		run(ctx, f)
	}
	return group.Wait
}

// unread is the first feed without which nothing can be decided; nil where all was read, once.
func (w *world) unread() *feed.Feed {
	for _, f := range []*feed.Feed{w.node, w.config} {
		if synced, _ := f.State(); !synced {
			return f
		}
	}
	if w.cilium == nil {
		return nil
	}
	w.cilium.Follow()
	for _, f := range w.cilium.Feeds() {
		if synced, err := f.State(); !synced && err == nil {
			return f
		}
	}
	return nil
}

var errNoPlugin = errors.New("the ConfigMap or its key " + watcher.PluginKey + " is not there; helm upgrade puts it back")

// plugin is the entry that is to be chained, and whether the release is leaving.
func (w *world) plugin() (entry chaining.Entry, leaving bool, err error) {
	config, found := feed.One[*corev1.ConfigMap](w.config)
	if !found {
		return entry, false, errNoPlugin
	}
	leaving = watcher.Leaving(config.Data)
	text, found := config.Data[watcher.PluginKey]
	if !found {
		return entry, leaving, errNoPlugin
	}
	entry, err = configmap.ParsePlugin([]byte(text), w.options.CheckPlugin, w.options.reserved()...)
	return entry, leaving, err
}

// configMapUsed reports whether Cilium is configured to read our ConfigMap on this node; nil where that cannot be read.
func (w *world) configMapUsed(node *corev1.Node) *bool {
	used := false
	if w.cilium == nil {
		return &used
	}
	for _, f := range w.cilium.Feeds() {
		if synced, err := f.State(); !synced && !apierrors.IsNotFound(err) {
			return nil
		}
	}
	used = w.cilium.Seen().Reads(configmap.Node{Name: node.Name, Labels: node.Labels, Annotations: node.Annotations}, w.options.ConfigMap)
	return &used
}
