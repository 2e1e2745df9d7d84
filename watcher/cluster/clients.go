package cluster

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

// clients talk to the API server. They are limited by its priority and fairness, not by themselves.
type clients struct {
	kube   kubernetes.Interface
	meta   metadata.Interface
	cilium *rest.RESTClient
}

func newClients(config *rest.Config) (*clients, error) {
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
	return &clients{kube, meta, cilium}, nil
}

// withName narrows an origin to one object.
func withName(s origin, name string) origin {
	s.field = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return s
}

// lister is the part of a generated client that a feed needs.
type lister[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func (c *clients) from(list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)) origin {
	return origin{list: list, watch: watch, client: c.kube}
}

// of makes an origin of a generated client.
func of[L runtime.Object](c *clients, l lister[L]) origin {
	return c.from(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return l.List(ctx, o) }, l.Watch)
}

func (c *clients) nodes() origin {
	nodes := c.meta.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	s := of(c, nodes)
	s.client = c.meta
	return s
}

// nodeConfigs goes past discovery: the resource may come to be at any time.
func (c *clients) nodeConfigs(namespace string) origin {
	get := func(o metav1.ListOptions) *rest.Request {
		return c.cilium.Get().Namespace(namespace).Resource("ciliumnodeconfigs").VersionedParams(&o, metav1.ParameterCodec)
	}
	return origin{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &ciliumv2.CiliumNodeConfigList{}
			return list, get(o).Do(ctx).Into(list)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return get(o).Watch(ctx)
		},
		client: c.kube,
	}
}
