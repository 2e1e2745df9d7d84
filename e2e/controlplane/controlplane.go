// Package controlplane runs a real etcd and kube-apiserver on loopback, for tests and the demo: no kubelet, no controllers.
package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// ControlPlane is a running API server.
type ControlPlane struct {
	// Config is an admin's.
	Config *rest.Config
	Kube   kubernetes.Interface
	env    *envtest.Environment
}

// Start runs the binaries that KUBEBUILDER_ASSETS, the cache or a download gives, or else builds them: that takes minutes
// once, and its progress is said on stderr. Stop must be called.
func Start(ctx context.Context) (*ControlPlane, error) {
	assets, err := assets(ctx)
	if err != nil {
		return nil, err
	}
	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	config, err := env.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the control plane: %w", err), env.Stop())
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a client: %w", err), env.Stop())
	}
	return &ControlPlane{Config: config, Kube: kube, env: env}, nil
}

// Stop ends both processes and removes what they wrote.
func (c *ControlPlane) Stop() error { return c.env.Stop() }

// Kubeconfig is an admin's, for kubectl and for processes.
func (c *ControlPlane) Kubeconfig() ([]byte, error) {
	user, err := c.env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, fmt.Errorf("add an admin: %w", err)
	}
	return user.KubeConfig()
}

// As is the configuration of a ServiceAccount, with its own rights and no more.
func (c *ControlPlane) As(ctx context.Context, namespace, name string) (*rest.Config, error) {
	token, err := c.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = token.Status.Token
	return config, nil
}

// Namespace makes a namespace.
func (c *ControlPlane) Namespace(ctx context.Context, name string) error {
	_, err := c.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make namespace %s: %w", name, err)
	}
	return nil
}

// NodeConfigCRD installs Cilium's own definition of CiliumNodeConfig.
func (c *ControlPlane) NodeConfigCRD() error {
	crd, err := nodeConfigCRD()
	if err != nil {
		return err
	}
	_, err = envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}})
	if err != nil {
		return fmt.Errorf("install the definition of CiliumNodeConfig: %w", err)
	}
	return nil
}

// RemoveNodeConfigCRD removes the definition and all CiliumNodeConfigs.
func (c *ControlPlane) RemoveNodeConfigCRD() error {
	crd, err := nodeConfigCRD()
	if err != nil {
		return err
	}
	return envtest.UninstallCRDs(c.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}})
}

func nodeConfigCRD() (*apiextensionsv1.CustomResourceDefinition, error) {
	cilium, err := CiliumModule()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(cilium, "pkg/k8s/apis/cilium.io/client/crds/v2/ciliumnodeconfigs.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read Cilium's definitions: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return nil, fmt.Errorf("read the definition of CiliumNodeConfig: %w", err)
	}
	return crd, nil
}

// CiliumModule is the folder of the Cilium module that the product pins: its chart and its definitions lie there.
func CiliumModule() (string, error) {
	return output("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cilium/cilium")
}

// Root is the project's folder.
func Root() (string, error) { return output("go", "list", "-m", "-f", "{{.Dir}}") }

func output(name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

func assets(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack", "assets.sh"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find or build kube-apiserver and etcd: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
