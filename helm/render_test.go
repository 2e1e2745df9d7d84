package helm_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/helm"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// valueSets are the files of testdata/values; each has its golden files.
func valueSets(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no value sets: %v", err)
	}
	var sets []string
	for _, path := range paths {
		sets = append(sets, strings.TrimSuffix(filepath.Base(path), ".yaml"))
	}
	return sets
}

func values(t *testing.T, set string) map[string]any {
	t.Helper()
	return parse(t, read(t, filepath.Join("testdata/values", set+".yaml")))
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return v
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// render renders Holdfast's chart as release "rel" in namespace "holdfast-system", unless o says otherwise.
func render(t *testing.T, o helm.RenderOptions) (manifests, notes string, err error) {
	t.Helper()
	if o.Release == "" {
		o.Release = "rel"
	}
	if o.Namespace == "" {
		o.Namespace = "holdfast-system"
	}
	c, err := helm.Chart()
	if err != nil {
		t.Fatal(err)
	}
	return helm.Render(c, o)
}

func mustRender(t *testing.T, o helm.RenderOptions) (manifests, notes string) {
	t.Helper()
	manifests, notes, err := render(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return manifests, notes
}

func TestN7N16N17RenderedChartIsTheGoldenOne(t *testing.T) {
	for _, set := range valueSets(t) {
		t.Run(set, func(t *testing.T) {
			manifests, notes := mustRender(t, helm.RenderOptions{Values: values(t, set)})
			again, _ := mustRender(t, helm.RenderOptions{Values: values(t, set)})
			if manifests != again {
				t.Error("two renderings of the same values differ")
			}
			golden(t, set+".yaml", manifests)
			golden(t, set+".notes.txt", notes)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata/golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(read(t, path), got); diff != "" {
		t.Errorf("%s (-golden +rendered; go test ./helm -update rewrites it):\n%s", path, diff)
	}
}

func TestHooksCanBeLeftOut(t *testing.T) {
	with, _ := mustRender(t, helm.RenderOptions{Values: values(t, "defaults")})
	without, _ := mustRender(t, helm.RenderOptions{Values: values(t, "defaults"), DisableHooks: true})
	if !strings.Contains(with, "helm.sh/hook: pre-delete") || strings.Contains(without, "helm.sh/hook") {
		t.Error("DisableHooks must leave out the hooks, and only it")
	}
}

func TestAKubernetesThatIsTooOldIsRefused(t *testing.T) {
	_, _, err := render(t, helm.RenderOptions{Values: values(t, "defaults"), KubeVersion: "v1.29.9"})
	if err == nil || !strings.Contains(err.Error(), "requires kubeVersion: >=1.30.0-0") {
		t.Errorf("got %v", err)
	}
}
