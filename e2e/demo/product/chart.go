package product

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/helm"
)

// Release is one installation of the chart on a control plane without kubelets.
type Release struct {
	Plane           *controlplane.ControlPlane
	Name, Namespace string
	// Values of the chart, as a person gave them.
	Values map[string]any
	// Folder is where kubeconfigs are written.
	Folder string
}

// Values are the least the chart needs on the control plane: the API server's own address, because there are no Services,
// and free ports of loopback alone.
func Values(config *rest.Config, resolvers ...any) (map[string]any, error) {
	server, err := url.Parse(config.Host)
	if err == nil && server.Host == "" {
		server, err = url.Parse("https://" + config.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("read the API server's address %q: %w", config.Host, err)
	}
	port, err := strconv.Atoi(server.Port())
	if err != nil {
		return nil, fmt.Errorf("read the API server's port %q: %w", server.Port(), err)
	}
	free, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"plugin":        map[string]any{"resolvers": resolvers},
		"cilium":        map[string]any{"namespace": "kube-system"},
		"kubernetesApi": map[string]any{"host": server.Hostname(), "port": port},
		"watcher":       map[string]any{"metricsAddress": "127.0.0.1", "metricsPort": free[0], "healthPort": free[1]},
	}, nil
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // after the last is found: no two are the same
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Watcher is the command line of the chart's Deployment, for a run here.
func (r *Release) Watcher(ctx context.Context) ([]string, error) {
	name := r.Name + "-watcher"
	deployment, err := r.Plane.Kube.AppsV1().Deployments(r.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get Deployment %s/%s: %w", r.Namespace, name, err)
	}
	return r.command(ctx, &deployment.Spec.Template.Spec)
}

// Leave is the command line of the Job that the chart runs before it is uninstalled. It applies what Helm would apply for that
// Job, and leaves the Job out: no kubelet would run it.
func (r *Release) Leave(ctx context.Context) ([]string, error) {
	chart, err := helm.Chart()
	if err != nil {
		return nil, err
	}
	manifests, _, err := helm.Render(chart, helm.RenderOptions{Release: r.Name, Namespace: r.Namespace, Values: r.Values})
	if err != nil {
		return nil, err
	}
	objects, err := Objects(manifests)
	if err != nil {
		return nil, err
	}
	var job batchv1.Job
	for _, o := range objects {
		if o.GetAnnotations()["helm.sh/hook"] != "pre-delete" {
			continue
		}
		if o.GetKind() == "Job" {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &job)
		} else {
			err = Apply(ctx, r.Plane.Config, o, "helm")
		}
		if err != nil {
			return nil, err
		}
	}
	return r.command(ctx, &job.Spec.Template.Spec)
}

// command is a pod's command line as its kubelet would make it, with a kubeconfig in place of the mounted token.
func (r *Release) command(ctx context.Context, pod *corev1.PodSpec) ([]string, error) {
	if len(pod.Containers) != 1 || len(pod.Containers[0].Command) < 2 {
		return nil, fmt.Errorf("the chart's pod has no command to run")
	}
	config, err := r.Plane.As(ctx, r.Namespace, pod.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.Folder, pod.ServiceAccountName+".kubeconfig")
	if err := writeKubeconfig(path, config); err != nil {
		return nil, err
	}
	args := pod.Containers[0].Command[1:] // the first word is the binary's place in the image
	for _, arg := range pod.Containers[0].Args {
		args = append(args, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", r.Namespace))
	}
	return append(args, "--kubeconfig="+path), nil
}

func writeKubeconfig(path string, config *rest.Config) error {
	const name = "holdfast"
	file := api.NewConfig()
	file.Clusters[name] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &api.AuthInfo{Token: config.BearerToken}
	file.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	data, err := clientcmd.Write(*file)
	if err != nil {
		return fmt.Errorf("encode kubeconfig %q: %w", path, err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}

// Objects reads what helm template prints.
func Objects(manifests string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(manifests)), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(&o.Object); {
		case err == io.EOF:
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("read manifests: %w", err)
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}
