package helm_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-cni/holdfast/helm"
)

// ciliumManifests renders Cilium's own chart, as its module ships it.
func ciliumManifests(t *testing.T, values map[string]any) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cilium/cilium").Output()
	if err != nil {
		t.Fatalf("find Cilium's module: %v", err)
	}
	c, err := helm.LoadDir(filepath.Join(strings.TrimSpace(string(dir)), "install/kubernetes/cilium"))
	if err != nil {
		t.Fatal(err)
	}
	manifests, _, err := helm.Render(c, helm.RenderOptions{
		Release: "cilium", Namespace: "kube-system", Values: values, DisableHooks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return manifests
}

// between returns the lines between two markers of the notes.
func between(t *testing.T, notes, begin, end string) string {
	t.Helper()
	_, after, found := strings.Cut(notes, begin+"\n")
	snippet, _, ended := strings.Cut(after, end)
	if !found || !ended {
		t.Fatalf("the notes hold no %q … %q:\n%s", begin, end, notes)
	}
	return snippet
}

func tolerations(t *testing.T, manifests, kind, name string) []any {
	t.Helper()
	found, ok, err := unstructured.NestedSlice(find(t, manifests, kind, name).Object, "spec", "template", "spec", "tolerations")
	if err != nil || !ok {
		t.Fatalf("%s %s: tolerations: %v", kind, name, err)
	}
	return found
}

func TestC4C8CiliumsChartTakesTheValuesOfTheNotes(t *testing.T) {
	_, notes := mustRender(t, helm.RenderOptions{Values: values(t, "defaults")})
	snippet := between(t, notes, "# begin of the Cilium values", "# end of the Cilium values")
	manifests := ciliumManifests(t, parse(t, snippet))

	config, _, err := unstructured.NestedStringMap(find(t, manifests, "ConfigMap", "cilium-config").Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, key := range []string{"read-cni-conf", "write-cni-conf-when-ready", "cni-exclusive", "bpf-lb-sock-hostns-only"} {
		got[key] = config[key]
	}
	want := map[string]string{
		"read-cni-conf":             "/tmp/cni-configuration/cni-config",
		"write-cni-conf-when-ready": "/host/etc/cni/net.d/05-cilium.conflist",
		"cni-exclusive":             "true",
		"bpf-lb-sock-hostns-only":   "true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cilium-config (-want +rendered):\n%s", diff)
	}

	volumes, _, _ := unstructured.NestedSlice(find(t, manifests, "DaemonSet", "cilium").Object, "spec", "template", "spec", "volumes")
	mounted := ""
	for _, v := range volumes {
		if name, ok, _ := unstructured.NestedString(v.(map[string]any), "configMap", "name"); ok && v.(map[string]any)["name"] == "cni-configuration" {
			mounted = name
		}
	}
	if mounted != "holdfast-cni-config" {
		t.Errorf("Cilium's agent mounts ConfigMap %q", mounted)
	}
}

func TestC8TheNotesOnlyAddToTheTolerationsOfCiliumsOperator(t *testing.T) {
	_, notes := mustRender(t, helm.RenderOptions{Values: values(t, "defaults")})
	snippet := between(t, notes, "# begin of the Cilium values", "# end of the Cilium values")
	before := tolerations(t, ciliumManifests(t, nil), "Deployment", "cilium-operator")
	after := tolerations(t, ciliumManifests(t, parse(t, snippet)), "Deployment", "cilium-operator")

	ours := map[string]any{"key": "holdfast.dev/unchained", "operator": "Exists"}
	var rest []any
	found := false
	for _, toleration := range after {
		if cmp.Equal(toleration, any(ours)) {
			found = true
			continue
		}
		rest = append(rest, toleration)
	}
	if !found {
		t.Error("the operator does not tolerate holdfast.dev/unchained")
	}
	if diff := cmp.Diff(before, rest); diff != "" {
		t.Errorf("the operator's other tolerations (-Cilium's default +with the notes' values):\n%s", diff)
	}
}

func TestC9TheNotesSayHowToUnsetTheConfigMap(t *testing.T) {
	_, notes := mustRender(t, helm.RenderOptions{Values: values(t, "cilium-namespace")})
	last := 0
	for _, step := range []string{
		"helm -n holdfast-system uninstall rel",
		"helm -n cilium upgrade cilium cilium/cilium --version <version> --reuse-values --set cni.configMap=\n",
		"kubectl -n cilium rollout status daemonset/cilium",
		"kubectl -n cilium delete configmap cni-list",
	} {
		at := strings.Index(notes, step)
		if at < last {
			t.Errorf("%q is missing or out of order in:\n%s", step, notes)
		}
		last = at
	}
}
