package helm

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
)

// DefaultKubeVersion is the oldest Kubernetes that Holdfast supports.
const DefaultKubeVersion = "v1.30.0"

// RenderOptions says what a chart is rendered for.
type RenderOptions struct {
	Release   string
	Namespace string
	// Values override the chart's own; they are not changed.
	Values map[string]any
	// KubeVersion is the Kubernetes version to render for; empty: DefaultKubeVersion.
	KubeVersion string
	// DisableHooks leaves the hooks out.
	DisableHooks bool
}

// Render returns what `helm template` prints, hooks last, and what NOTES.txt says. It talks to no cluster, so the
// chart's lookups find nothing.
func Render(c *chart.Chart, o RenderOptions) (manifests, notes string, err error) {
	install := action.NewInstall(action.NewConfiguration(quiet))
	install.ReleaseName, install.Namespace = o.Release, o.Namespace
	install.DryRunStrategy = action.DryRunClient
	install.KubeVersion, err = common.ParseKubeVersion(cmp.Or(o.KubeVersion, DefaultKubeVersion))
	if err != nil {
		return "", "", fmt.Errorf("render chart %q: Kubernetes version %q: %w", c.Name(), o.KubeVersion, err)
	}
	rendered, err := install.Run(c, o.Values)
	if err != nil {
		return "", "", fmt.Errorf("render chart %q: %w", c.Name(), err)
	}
	r, err := v1(rendered)
	if err != nil {
		return "", "", err
	}
	out := strings.TrimSpace(r.Manifest) + "\n"
	if !o.DisableHooks {
		for _, hook := range r.Hooks {
			out += fmt.Sprintf("---\n# Source: %s\n%s\n", hook.Path, strings.TrimSpace(hook.Manifest))
		}
	}
	return out, r.Info.Notes, nil
}

func quiet(c *action.Configuration) { c.SetLogger(slog.DiscardHandler) }

func v1(r release.Releaser) (*releasev1.Release, error) {
	v, ok := r.(*releasev1.Release)
	if !ok {
		return nil, fmt.Errorf("helm release of unknown type %T", r)
	}
	return v, nil
}
