package feed

import (
	"context"
	"fmt"
	"sync"

	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/configmap"
)

// Cilium follows what decides the settings of Cilium's agents: cilium-config, the agents' DaemonSet, CiliumNodeConfigs,
// and every further ConfigMap that daemon.configSources names.
type Cilium struct {
	Config, DaemonSet, NodeConfigs *Feed

	namespace string
	clients   *Clients

	mu      sync.Mutex
	sources map[configmap.Source]*followed
	run     func(context.Context, *Feed)
	ctx     context.Context // of everything that is followed
	changed func()
}

// followed is a feed that can be left again.
type followed struct {
	*Feed
	leave context.CancelFunc
}

// NewCilium follows the installation in a namespace, once it is started.
func NewCilium(c *Clients, namespace string) *Cilium {
	return &Cilium{
		namespace: namespace, clients: c, sources: map[configmap.Source]*followed{},
		Config: ConfigMap(c, namespace, configmap.DefaultConfigName),
		DaemonSet: New(fmt.Sprintf("DaemonSet %s/cilium", namespace), &appsv1.DaemonSet{},
			WithName(Of(c, c.Kube.AppsV1().DaemonSets(namespace)), "cilium"), StripStatus),
		NodeConfigs: New(fmt.Sprintf("CiliumNodeConfigs in %s", namespace), &ciliumv2.CiliumNodeConfig{}, c.NodeConfigs(namespace), stripNodeConfig),
	}
}

// ConfigMap is a feed of one.
func ConfigMap(c *Clients, namespace, name string) *Feed {
	return New(fmt.Sprintf("ConfigMap %s/%s", namespace, name), &corev1.ConfigMap{}, WithName(Of(c, c.Kube.CoreV1().ConfigMaps(namespace)), name), nil)
}

// Start says how feeds are run and who is told of changes; the three that are always there are for the caller to run.
func (c *Cilium) Start(ctx context.Context, run func(context.Context, *Feed), changed func()) {
	c.ctx, c.run, c.changed = ctx, run, changed
}

// Feeds lists them all.
func (c *Cilium) Feeds() []*Feed {
	return append([]*Feed{c.Config, c.DaemonSet, c.NodeConfigs}, c.Named()...)
}

// Named are those of ConfigMaps that the sources name beyond cilium-config.
func (c *Cilium) Named() []*Feed {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*Feed
	for _, f := range c.sources {
		list = append(list, f.Feed)
	}
	return list
}

// Follow starts a feed for every ConfigMap that the sources name beyond cilium-config, and leaves those that they no longer
// name. What they name wrongly is for configmap.Check to report.
func (c *Cilium) Follow() {
	daemonSet, _ := One[*appsv1.DaemonSet](c.DaemonSet)
	sources, err := configmap.ParseSources(daemonSet, c.namespace)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	named := map[configmap.Source]bool{}
	for _, s := range sources.Order {
		if s.Kind != configmap.SourceConfigMap || s.Namespace == c.namespace && s.Name == configmap.DefaultConfigName {
			continue
		}
		named[s] = true
		if c.sources[s] != nil {
			continue
		}
		f := ConfigMap(c.clients, s.Namespace, s.Name)
		f.Subscribe(c.changed)
		ctx, leave := context.WithCancel(c.ctx)
		c.sources[s] = &followed{f, leave}
		c.run(ctx, f)
	}
	for s, f := range c.sources {
		if !named[s] {
			f.leave()
			delete(c.sources, s)
		}
	}
}

// Seen is the installation as seen now, with what can decide the list.
func (c *Cilium) Seen() *configmap.Cilium {
	seen := &configmap.Cilium{Namespace: c.namespace, ConfigMaps: All[*corev1.ConfigMap](c.Config), NodeConfigs: All[*ciliumv2.CiliumNodeConfig](c.NodeConfigs)}
	for _, f := range c.Named() {
		seen.ConfigMaps = append(seen.ConfigMaps, All[*corev1.ConfigMap](f)...)
	}
	seen.DaemonSet, _ = One[*appsv1.DaemonSet](c.DaemonSet)
	return seen
}
