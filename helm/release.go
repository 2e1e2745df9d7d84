package helm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	"k8s.io/client-go/rest"
)

// Helm's library owns fields under the name of the running program unless told otherwise. As "helm", a release made here
// can be changed with the helm command, and the other way round, with no conflict over who owns what.
func init() { kube.ManagedFieldsManager = "helm" }

// hookTimeout is Helm's own default for --timeout.
const hookTimeout = 5 * time.Minute

// ReleaseOptions names a release in a cluster and says how to change it.
type ReleaseOptions struct {
	Release   string
	Namespace string
	// Values override the chart's own; not for Uninstall.
	Values map[string]any
	// CreateNamespace makes Install create the namespace if there is none.
	CreateNamespace bool
	// DisableHooks runs no hooks: for a control plane without nodes, where their Jobs would never end.
	DisableHooks bool
}

// Validate says what is missing.
func (o ReleaseOptions) Validate() error {
	if o.Release == "" || o.Namespace == "" {
		return errors.New("a Helm release needs a name and a namespace")
	}
	return nil
}

// Install installs the chart as `helm install` does and returns its notes. The chart's lookups see the cluster. It waits
// for hooks only, not for what it created to be ready.
func Install(ctx context.Context, config *rest.Config, c *chart.Chart, o ReleaseOptions) (notes string, err error) {
	cfg, err := configuration(config, o)
	if err != nil {
		return "", fmt.Errorf("install release %q: %w", o.Release, err)
	}
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace = o.Release, o.Namespace
	install.CreateNamespace = o.CreateNamespace
	install.DisableHooks, install.WaitStrategy, install.Timeout = o.DisableHooks, kube.HookOnlyStrategy, hookTimeout
	r, err := install.RunWithContext(ctx, c, o.Values)
	if err != nil {
		return "", fmt.Errorf("install release %q: %w", o.Release, err)
	}
	return notesOf(r)
}

// Upgrade upgrades an installed release as `helm upgrade` does: to these values, not to these beside the old ones.
func Upgrade(ctx context.Context, config *rest.Config, c *chart.Chart, o ReleaseOptions) (notes string, err error) {
	cfg, err := configuration(config, o)
	if err != nil {
		return "", fmt.Errorf("upgrade release %q: %w", o.Release, err)
	}
	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace, upgrade.ResetValues = o.Namespace, true
	upgrade.DisableHooks, upgrade.WaitStrategy, upgrade.Timeout = o.DisableHooks, kube.HookOnlyStrategy, hookTimeout
	r, err := upgrade.RunWithContext(ctx, o.Release, c, o.Values)
	if err != nil {
		return "", fmt.Errorf("upgrade release %q: %w", o.Release, err)
	}
	return notesOf(r)
}

// Uninstall removes a release as `helm uninstall` does, hooks first. The context ends the waiting, not the hooks.
func Uninstall(ctx context.Context, config *rest.Config, o ReleaseOptions) error {
	cfg, err := configuration(config, o)
	if err != nil {
		return fmt.Errorf("uninstall release %q: %w", o.Release, err)
	}
	uninstall := action.NewUninstall(cfg)
	uninstall.DisableHooks, uninstall.WaitStrategy, uninstall.Timeout = o.DisableHooks, kube.HookOnlyStrategy, hookTimeout
	uninstall.WaitOptions = []kube.WaitOption{kube.WithWaitContext(ctx)}
	if _, err := uninstall.Run(o.Release); err != nil {
		return fmt.Errorf("uninstall release %q: %w", o.Release, err)
	}
	return nil
}

func configuration(config *rest.Config, o ReleaseOptions) (*action.Configuration, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	cfg := action.NewConfiguration(quiet)
	// Releases are kept in Secrets, where the helm command finds them too.
	if err := cfg.Init(newGetter(config, o.Namespace), o.Namespace, "secrets"); err != nil {
		return nil, err
	}
	return cfg, nil
}

func notesOf(r release.Releaser) (string, error) {
	v, err := v1(r)
	if err != nil {
		return "", err
	}
	return v.Info.Notes, nil
}
