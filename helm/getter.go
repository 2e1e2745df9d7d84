package helm

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// getter gives Helm's library the clients it asks for from one rest.Config, with no look at a kubeconfig or at the
// environment. It implements genericclioptions.RESTClientGetter.
type getter struct {
	config    *rest.Config
	namespace string
	discovery func() (discovery.CachedDiscoveryInterface, error)
}

func newGetter(config *rest.Config, namespace string) *getter {
	config = rest.CopyConfig(config)
	return &getter{
		config:    config,
		namespace: namespace,
		discovery: sync.OnceValues(func() (discovery.CachedDiscoveryInterface, error) {
			client, err := discovery.NewDiscoveryClientForConfig(config)
			if err != nil {
				return nil, err
			}
			return memory.NewMemCacheClient(client), nil
		}),
	}
}

func (g *getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery()
}

func (g *getter) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := g.discovery()
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(client), nil
}

// ToRawKubeConfigLoader is asked for the namespace only.
func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(*api.NewConfig(),
		&clientcmd.ConfigOverrides{Context: api.Context{Namespace: g.namespace}})
}
