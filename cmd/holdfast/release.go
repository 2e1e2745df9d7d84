package main

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/watcher/cluster"
)

// release is what every command needs that talks to an installed one.
type release struct {
	cluster.Options
	kubeconfig string
}

func (r *release) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.Namespace, "namespace", os.Getenv("POD_NAMESPACE"), "Holdfast's own namespace; POD_NAMESPACE by default")
	f.StringVar(&r.Release, "release", "holdfast", "name of Holdfast's Helm release")
	f.StringVar(&r.CiliumNamespace, "cilium-namespace", "kube-system", "namespace that Cilium runs in")
	f.StringVar(&r.ConfigMap, "cilium-configmap", configmap.DefaultConfigMap, "name of the ConfigMap with the list, in Cilium's namespace (Cilium's Helm value cni.configMap)")
	f.StringVar(&r.kubeconfig, "kubeconfig", "", "kubeconfig file, for a run outside the cluster")
}

// connect checks the flags and returns how to reach the API server.
func (r *release) connect() (*rest.Config, error) {
	if err := r.Validate(); err != nil {
		return nil, usageError{err}
	}
	if r.kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
		if err != nil {
			return nil, usageError{fmt.Errorf("--kubeconfig: %w", err)}
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, usageError{fmt.Errorf("%w; outside a cluster give --kubeconfig", err)}
	}
	return config, nil
}

// apiAddress is one of the API server that needs no Service.
type apiAddress struct {
	host string
	port int
}

func (a *apiAddress) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.host, "kubernetes-api-host", "", "address of the API server that needs no Service; with kube-proxy replacement the Service's works only once Cilium does")
	f.IntVar(&a.port, "kubernetes-api-port", 6443, "port of the API server at --kubernetes-api-host")
}

// apply points the configuration there, and reports whether there is such an address.
func (a *apiAddress) apply(config *rest.Config) bool {
	if a.host == "" {
		return false
	}
	config.Host = "https://" + net.JoinHostPort(a.host, strconv.Itoa(a.port))
	return true
}
