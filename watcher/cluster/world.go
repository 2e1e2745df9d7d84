package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher"
)

// world is everything that is looked at, each object by its own name, so that no right to read others is needed.
type world struct {
	options *Options
	clients *clients

	plugin, status     *feed // Holdfast's own
	stray              *feed // nil where Cilium's namespace is our own
	config, list       *feed // in Cilium's namespace
	daemonSet          *feed
	operator           *feed
	pods               *feed
	nodeConfigs, nodes *feed

	mu      sync.Mutex
	sources map[configmap.Source]*followed // ConfigMaps that daemon.configSources names beside cilium-config
	run     func(context.Context, *feed)
	ctx     context.Context // of everything that is followed
	changed func()
}

func newWorld(c *clients, o *Options) *world {
	own, cilium := c.kube.CoreV1().ConfigMaps(o.Namespace), c.kube.CoreV1().ConfigMaps(o.CiliumNamespace)
	configMap := func(namespace, name string, maps lister[*corev1.ConfigMapList]) *feed {
		return newFeed(fmt.Sprintf("ConfigMap %s/%s", namespace, name), &corev1.ConfigMap{}, withName(of(c, maps), name), nil)
	}
	w := &world{
		options:     o,
		clients:     c,
		plugin:      configMap(o.Namespace, watcher.ConfigName(o.Release), own),
		status:      configMap(o.Namespace, watcher.StatusName(o.Release), own),
		config:      configMap(o.CiliumNamespace, configmap.DefaultConfigName, cilium),
		list:        configMap(o.CiliumNamespace, o.ConfigMap, cilium),
		daemonSet:   newFeed(fmt.Sprintf("DaemonSet %s/cilium", o.CiliumNamespace), &appsv1.DaemonSet{}, withName(of(c, c.kube.AppsV1().DaemonSets(o.CiliumNamespace)), "cilium"), stripStatus),
		operator:    newFeed(fmt.Sprintf("Deployment %s/cilium-operator", o.CiliumNamespace), &appsv1.Deployment{}, withName(of(c, c.kube.AppsV1().Deployments(o.CiliumNamespace)), "cilium-operator"), stripStatus),
		nodeConfigs: newFeed(fmt.Sprintf("CiliumNodeConfigs in %s", o.CiliumNamespace), &ciliumv2.CiliumNodeConfig{}, c.nodeConfigs(o.CiliumNamespace), stripNodeConfig),
		nodes:       newFeed("Nodes", &metav1.PartialObjectMetadata{}, c.nodes(), stripNode),
		sources:     map[configmap.Source]*followed{},
	}
	agents := of(c, c.kube.CoreV1().Pods(o.CiliumNamespace))
	agents.label = configmap.AgentLabel + "=" + configmap.AgentLabelValue
	w.pods = newFeed(fmt.Sprintf("Pods of Cilium in %s", o.CiliumNamespace), &corev1.Pod{}, agents, stripPod)
	if o.Namespace != o.CiliumNamespace {
		w.stray = configMap(o.Namespace, o.ConfigMap, own)
	}
	return w
}

// feeds lists them all.
func (w *world) feeds() []*feed {
	list := []*feed{w.plugin, w.status, w.config, w.list, w.daemonSet, w.operator, w.pods, w.nodeConfigs, w.nodes}
	if w.stray != nil {
		list = append(list, w.stray)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.sources {
		list = append(list, f.feed)
	}
	return list
}

// followed is a feed that can be left again.
type followed struct {
	*feed
	leave context.CancelFunc
}

// decisive are the feeds that decide what the list must be. While one of them was never read nothing is written, because
// what cannot be read is not what is not there.
func (w *world) decisive() []*feed {
	list := []*feed{w.plugin, w.status, w.config, w.list, w.daemonSet}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.sources {
		list = append(list, f.feed)
	}
	return list
}

// unread returns the first decisive feed that was never read.
func (w *world) unread() *feed {
	for _, f := range w.decisive() {
		if synced, _ := f.state(); !synced {
			return f
		}
	}
	return nil
}

// settled reports whether each feed was read or is known to be unreadable.
func (w *world) settled() bool {
	for _, f := range w.feeds() {
		if synced, err := f.state(); !synced && err == nil {
			return false
		}
	}
	return true
}

// unreadable lists what cannot be read. A resource that does not exist yet is merely empty.
func (w *world) unreadable() []configmap.Finding {
	var found []configmap.Finding
	for _, f := range w.feeds() {
		_, err := f.state()
		if err == nil || apierrors.IsNotFound(err) {
			continue
		}
		fix := configmap.Fix{Command: "the watch is tried again every few seconds; see the watcher's log if this stays"}
		if apierrors.IsForbidden(err) {
			fix.Value = "cilium.namespace, cilium.extraConfigMaps (Holdfast's chart)"
			fix.Command = "helm upgrade renders the Roles that give the right; without it what depends on this is unverified"
		}
		found = append(found, configmap.Finding{ID: configmap.SourceUnreadable, Severity: configmap.Warning, Object: f.what,
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

// follow starts a feed for every ConfigMap that the sources name beyond cilium-config, and leaves those that they no longer
// name. What they name wrongly is for Check to report.
func (w *world) follow() {
	daemonSet, _ := one[*appsv1.DaemonSet](w.daemonSet)
	sources, err := configmap.ParseSources(daemonSet, w.options.CiliumNamespace)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	named := map[configmap.Source]bool{}
	for _, s := range sources.Order {
		if s.Kind != configmap.SourceConfigMap || s.Namespace == w.options.CiliumNamespace && s.Name == configmap.DefaultConfigName {
			continue
		}
		named[s] = true
		if w.sources[s] != nil {
			continue
		}
		maps := of(w.clients, w.clients.kube.CoreV1().ConfigMaps(s.Namespace))
		f := newFeed(s.String(), &corev1.ConfigMap{}, withName(maps, s.Name), nil)
		f.subscribe(w.changed)
		ctx, leave := context.WithCancel(w.ctx)
		w.sources[s] = &followed{f, leave}
		w.run(ctx, f)
	}
	for s, f := range w.sources {
		if !named[s] {
			f.leave()
			delete(w.sources, s)
		}
	}
}

// start runs every feed until the context ends, and calls changed after each change.
func (w *world) start(ctx context.Context, changed func()) (wait func()) {
	var group sync.WaitGroup
	w.ctx, w.changed = ctx, changed
	w.run = func(ctx context.Context, f *feed) { group.Go(func() { f.run(ctx) }) }
	for _, f := range w.feeds() {
		f.subscribe(changed)
		w.run(ctx, f)
	}
	return group.Wait
}

// cilium is the installation as seen now, with what can decide the list.
func (w *world) cilium() *configmap.Cilium {
	c := &configmap.Cilium{Namespace: w.options.CiliumNamespace, ConfigMaps: all[*corev1.ConfigMap](w.config),
		NodeConfigs: all[*ciliumv2.CiliumNodeConfig](w.nodeConfigs)}
	w.mu.Lock()
	for _, f := range w.sources {
		c.ConfigMaps = append(c.ConfigMaps, all[*corev1.ConfigMap](f.feed)...)
	}
	w.mu.Unlock()
	c.DaemonSet, _ = one[*appsv1.DaemonSet](w.daemonSet)
	return c
}

// everything is the installation with its nodes, operator and agents, which only findings need.
func (w *world) everything() *configmap.Cilium {
	c := w.cilium()
	c.Operator, _ = one[*appsv1.Deployment](w.operator)
	c.Nodes = []configmap.Node{}
	if synced, _ := w.nodes.state(); !synced {
		c.Nodes = nil
	}
	for _, n := range all[*metav1.PartialObjectMetadata](w.nodes) {
		c.Nodes = append(c.Nodes, configmap.Node{Name: n.Name, Labels: n.Labels, Annotations: n.Annotations})
	}
	for _, pod := range all[*corev1.Pod](w.pods) {
		agent := configmap.Agent{Node: pod.Spec.NodeName}
		if pod.Status.StartTime != nil {
			agent.Started = pod.Status.StartTime.Time
		}
		c.Agents = append(c.Agents, agent)
	}
	return c
}
