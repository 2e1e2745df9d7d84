package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// world is everything that is looked at, each object by its own name, so that no right to read others is needed.
type world struct {
	options *Options
	clients *feed.Clients

	plugin, status *feed.Feed // Holdfast's own
	stray          *feed.Feed // nil where Cilium's namespace is our own
	list           *feed.Feed
	cilium         *feed.Cilium
	operator       *feed.Feed
	pods, nodes    *feed.Feed
}

func newWorld(c *feed.Clients, o *Options) *world {
	w := &world{
		options: o,
		clients: c,
		plugin:  feed.ConfigMap(c, o.Namespace, watcher.ConfigName(o.Release)),
		status:  feed.ConfigMap(c, o.Namespace, watcher.StatusName(o.Release)),
		list:    feed.ConfigMap(c, o.CiliumNamespace, o.ConfigMap),
		cilium:  feed.NewCilium(c, o.CiliumNamespace),
		operator: feed.New(fmt.Sprintf("Deployment %s/cilium-operator", o.CiliumNamespace), &appsv1.Deployment{},
			feed.WithName(feed.Of(c, c.Kube.AppsV1().Deployments(o.CiliumNamespace)), "cilium-operator"), feed.StripStatus),
		nodes: feed.New("Nodes", &metav1.PartialObjectMetadata{}, c.Nodes(), stripNode),
	}
	agents := feed.Of(c, c.Kube.CoreV1().Pods(o.CiliumNamespace))
	agents.Label = configmap.AgentLabel + "=" + configmap.AgentLabelValue
	w.pods = feed.New(fmt.Sprintf("Pods of Cilium in %s", o.CiliumNamespace), &corev1.Pod{}, agents, stripPod)
	if o.Namespace != o.CiliumNamespace {
		w.stray = feed.ConfigMap(c, o.Namespace, o.ConfigMap)
	}
	return w
}

// feeds lists them all.
func (w *world) feeds() []*feed.Feed {
	list := append([]*feed.Feed{w.plugin, w.status, w.list, w.operator, w.pods, w.nodes}, w.cilium.Feeds()...)
	if w.stray != nil {
		list = append(list, w.stray)
	}
	return list
}

// decisive are the feeds that decide what the list must be. While one of them was never read nothing is written, because
// what cannot be read is not what is not there.
func (w *world) decisive() []*feed.Feed {
	return append([]*feed.Feed{w.plugin, w.status, w.cilium.Config, w.list, w.cilium.DaemonSet}, w.cilium.Named()...)
}

// unread returns the first decisive feed that was never read.
func (w *world) unread() *feed.Feed {
	for _, f := range w.decisive() {
		if synced, _ := f.State(); !synced {
			return f
		}
	}
	return nil
}

// settled reports whether each feed was read or is known to be unreadable.
func (w *world) settled() bool {
	for _, f := range w.feeds() {
		if synced, err := f.State(); !synced && err == nil {
			return false
		}
	}
	return true
}

// unreadable lists what cannot be read. A resource that does not exist yet is merely empty.
func (w *world) unreadable() []configmap.Finding {
	var found []configmap.Finding
	for _, f := range w.feeds() {
		_, err := f.State()
		if err == nil || apierrors.IsNotFound(err) {
			continue
		}
		fix := configmap.Fix{Command: "the watch is tried again every few seconds; see the watcher's log if this stays"}
		if apierrors.IsForbidden(err) {
			fix.Value = "cilium.namespace, cilium.extraConfigMaps (Holdfast's chart)"
			fix.Command = "helm upgrade renders the Roles that give the right; without it what depends on this is unverified"
		}
		found = append(found, configmap.Finding{ID: configmap.SourceUnreadable, Severity: configmap.Warning, Object: f.What,
			Message: "cannot be read: " + errorText(err), Fix: fix})
	}
	return found
}

// errorText is the API server's own sentence, which repeats from try to try where the error around it may not.
func errorText(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return "the API server does not answer"
}

// start runs every feed until the context ends, and calls changed after each change.
func (w *world) start(ctx context.Context, changed func()) (wait func()) {
	var group sync.WaitGroup
	run := func(ctx context.Context, f *feed.Feed) { group.Go(func() { f.Run(ctx) }) }
	w.cilium.Start(ctx, run, changed)
	for _, f := range w.feeds() {
		f.Subscribe(changed)
		run(ctx, f)
	}
	return group.Wait
}

// everything is the installation with its nodes, operator and agents, which only findings need.
func (w *world) everything() *configmap.Cilium {
	c := w.cilium.Seen()
	c.Operator, _ = feed.One[*appsv1.Deployment](w.operator)
	c.Nodes = []configmap.Node{}
	if synced, _ := w.nodes.State(); !synced {
		c.Nodes = nil
	}
	for _, n := range feed.All[*metav1.PartialObjectMetadata](w.nodes) {
		c.Nodes = append(c.Nodes, configmap.Node{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations})
	}
	for _, pod := range feed.All[*corev1.Pod](w.pods) {
		agent := configmap.Agent{Node: pod.Spec.NodeName}
		if pod.Status.StartTime != nil {
			agent.Started = pod.Status.StartTime.Time
		}
		c.Agents = append(c.Agents, agent)
	}
	return c
}
