package feed

import (
	"context"
	"fmt"

	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Clients talk to the API server. They are limited by its priority and fairness, not by themselves.
type Clients struct {
	Kube   kubernetes.Interface
	Meta   metadata.Interface
	cilium *rest.RESTClient
}

// NewClients makes them for the configuration.
func NewClients(config *rest.Config) (*Clients, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	core := rest.CopyConfig(config)
	core.ContentType = runtime.ContentTypeProtobuf
	core.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(core)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a metadata client: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := ciliumv2.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register Cilium's types: %w", err)
	}
	metav1.AddToGroupVersion(scheme, ciliumv2.SchemeGroupVersion)
	custom := rest.CopyConfig(config)
	custom.APIPath = "/apis"
	custom.GroupVersion = &ciliumv2.SchemeGroupVersion
	custom.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cilium, err := rest.RESTClientFor(custom)
	if err != nil {
		return nil, fmt.Errorf("make a client for Cilium's resources: %w", err)
	}
	return &Clients{kube, meta, cilium}, nil
}

// WithName narrows an origin to one object.
func WithName(s Origin, name string) Origin {
	s.Field = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return s
}

// Lister is the part of a generated client that a feed needs.
type Lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func (c *Clients) from(list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)) Origin {
	return Origin{List: list, Watch: watch, Client: c.Kube}
}

// Of makes an origin of a generated client.
func Of[L runtime.Object](c *Clients, l Lister[L]) Origin {
	return c.from(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return l.List(ctx, o) }, l.Watch)
}

// Nodes are read as metadata alone.
func (c *Clients) Nodes() Origin {
	nodes := c.Meta.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	s := Of(c, nodes)
	s.Client = c.Meta
	return s
}

// NodeConfigs goes past discovery: the resource may come to be at any time.
func (c *Clients) NodeConfigs(namespace string) Origin {
	get := func(o metav1.ListOptions) *rest.Request {
		return c.cilium.Get().Namespace(namespace).Resource("ciliumnodeconfigs").VersionedParams(&o, metav1.ParameterCodec)
	}
	return Origin{
		List: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &ciliumv2.CiliumNodeConfigList{}
			return list, get(o).Do(ctx).Into(list)
		},
		Watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return get(o).Watch(ctx)
		},
		Client: c.Kube,
	}
}
