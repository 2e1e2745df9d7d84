package helm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/helm"
)

func objects(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+manifests, "\n---\n") {
		o := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(o) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: o})
		}
	}
	if len(objects) == 0 {
		t.Fatal("nothing was rendered")
	}
	return objects
}

func find(t *testing.T, manifests, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects(t, manifests) {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("no %s %q was rendered", kind, name)
	return nil
}

// images returns every value of a key "image", wherever it is.
func images(v any) []string {
	var found []string
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if image, ok := value.(string); ok && key == "image" {
				found = append(found, image)
			} else {
				found = append(found, images(value)...)
			}
		}
	case []any:
		for _, value := range v {
			found = append(found, images(value)...)
		}
	}
	return found
}

func TestN16EveryImageIsByDigestWhereOneIsSet(t *testing.T) {
	const digest = "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
	for _, set := range valueSets(t) {
		t.Run(set, func(t *testing.T) {
			v := values(t, set)
			v["image"] = map[string]any{"registry": "registry.example.com", "repository": "holdfast", "tag": "v1", "digest": digest}
			manifests, _ := mustRender(t, helm.RenderOptions{Values: v})
			seen := 0
			for _, o := range objects(t, manifests) {
				for _, image := range images(o.Object) {
					if strings.Contains(image, "linkerd") {
						continue // an init container of the user's own
					}
					seen++
					if want := "registry.example.com/holdfast@" + digest; image != want {
						t.Errorf("%s %s: image %q, want %q", o.GetKind(), o.GetName(), image, want)
					}
				}
			}
			want := 2
			if ciliumEnabled(v) {
				want++
			}
			if _, vendor, _ := unstructured.NestedMap(v, "plugin", "entry"); !vendor {
				want++
			}
			if seen != want {
				t.Errorf("%d images, want %d: install-cni's, the leave Job's, for Holdfast's own plugin the agent's and, where there is Cilium, the watcher's", seen, want)
			}
		})
	}
}

func TestN16ExtraLabelsAreOnEveryObject(t *testing.T) {
	manifests, _ := mustRender(t, helm.RenderOptions{Values: values(t, "private-registry")})
	for _, o := range objects(t, manifests) {
		if o.GetLabels()["team"] != "platform" {
			t.Errorf("%s %s: no label team=platform", o.GetKind(), o.GetName())
		}
	}
}

func TestN16ANewReplicaWaitsForTheHostPortsOfAnOldOne(t *testing.T) {
	manifests, _ := mustRender(t, helm.RenderOptions{Values: values(t, "defaults")})
	d := find(t, manifests, "Deployment", "rel-watcher")
	got, _, _ := unstructured.NestedMap(d.Object, "spec", "strategy", "rollingUpdate")
	want := map[string]any{"maxUnavailable": float64(1), "maxSurge": float64(0)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with as many replicas as nodes a surging update never ends (-want +got):\n%s", diff)
	}
}

func TestRolesNameEveryRightAndHoldNoWildcard(t *testing.T) {
	for _, set := range valueSets(t) {
		manifests, _ := mustRender(t, helm.RenderOptions{Values: values(t, set)})
		for _, r := range rights(t, manifests) {
			if strings.Contains(r, "*") {
				t.Errorf("%s: %s", set, r)
			}
		}
	}
}

// rights returns one line per rule, "<kind> <namespace>/<name>: <verbs> <groups>/<resources> <names>", sorted.
func rights(t *testing.T, manifests string) []string {
	t.Helper()
	var lines []string
	for _, o := range objects(t, manifests) {
		if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.Role
		data, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			lines = append(lines, fmt.Sprintf("%s %s/%s: %v %v/%v %v",
				o.GetKind(), o.GetNamespace(), o.GetName(), r.Verbs, r.APIGroups, r.Resources, r.ResourceNames))
		}
	}
	slices.Sort(lines)
	return lines
}

func TestRightsAreExactlyThese(t *testing.T) {
	manifests, _ := mustRender(t, helm.RenderOptions{Values: values(t, "defaults")})
	want := []string{
		"ClusterRole /holdfast-system.rel-install-cni: [get list watch patch] []/[nodes] []",
		"ClusterRole /holdfast-system.rel-install-cni: [patch] []/[nodes/status] []",
		"ClusterRole /holdfast-system.rel-agent: [create patch] [ events.k8s.io]/[events] []",
		"ClusterRole /holdfast-system.rel-agent: [get list watch] []/[pods nodes] []",
		"ClusterRole /holdfast-system.rel-agent: [patch] []/[pods/status] []",
		"Role holdfast-system/rel-agent: [get list watch] []/[configmaps] [rel-holdfast]",
		"Role default/holdfast-system.rel-install-cni-events: [create patch] [ events.k8s.io]/[events] []",
		"Role holdfast-system/rel-install-cni: [get list watch] []/[configmaps] [rel-holdfast]",
		"Role kube-system/holdfast-system.rel-install-cni-cilium: [get list watch] []/[configmaps] [cilium-config holdfast-cni-config]",
		"Role kube-system/holdfast-system.rel-install-cni-cilium: [get list watch] [apps]/[daemonsets] [cilium]",
		"Role kube-system/holdfast-system.rel-install-cni-cilium: [get list watch] [cilium.io]/[ciliumnodeconfigs] []",
		"ClusterRole /holdfast-system.rel-leave: [list] []/[nodes] []",
		"ClusterRole /holdfast-system.rel-watcher: [get list watch] []/[nodes] []",
		"Role holdfast-system/rel-leave: [get list watch] []/[configmaps] [rel-holdfast-status]",
		"Role holdfast-system/rel-leave: [get patch] []/[configmaps] [rel-holdfast]",
		"Role holdfast-system/rel-watcher: [create patch] [ events.k8s.io]/[events] []",
		"Role holdfast-system/rel-watcher: [create patch] []/[configmaps] [rel-holdfast-status]",
		"Role holdfast-system/rel-watcher: [create] [coordination.k8s.io]/[leases] []",
		"Role holdfast-system/rel-watcher: [get list watch] []/[configmaps] [rel-holdfast rel-holdfast-status holdfast-cni-config]",
		"Role holdfast-system/rel-watcher: [get update patch] [coordination.k8s.io]/[leases] [rel-holdfast-watcher]",
		"Role kube-system/holdfast-system.rel-watcher-cilium: [create patch] [ events.k8s.io]/[events] []",
		"Role kube-system/holdfast-system.rel-watcher-cilium: [create patch] []/[configmaps] [holdfast-cni-config]",
		"Role kube-system/holdfast-system.rel-watcher-cilium: [get list watch] []/[configmaps] [cilium-config holdfast-cni-config]",
		"Role kube-system/holdfast-system.rel-watcher-cilium: [get list watch] [apps]/[daemonsets] [cilium]",
		"Role kube-system/holdfast-system.rel-watcher-cilium: [get list watch] [apps]/[deployments] [cilium-operator]",
		"Role kube-system/holdfast-system.rel-watcher-cilium: [get list watch] [cilium.io]/[ciliumnodeconfigs] []",
		"Role kube-system/holdfast-system.rel-watcher-cilium: [list watch] []/[pods] []",
		"Role kube-system/holdfast-system.rel-watcher-cilium: [patch] []/[pods/status] []",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, rights(t, manifests)); diff != "" {
		t.Errorf("-want +rendered:\n%s", diff)
	}
}

func TestOnlyTheseKindsAreClusterScoped(t *testing.T) {
	allowed := []string{
		"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	}
	for _, set := range valueSets(t) {
		manifests, _ := mustRender(t, helm.RenderOptions{Values: values(t, set)})
		for _, o := range objects(t, manifests) {
			if o.GetNamespace() == "" && !slices.Contains(allowed, o.GetKind()) {
				t.Errorf("%s: %s %s has no namespace", set, o.GetKind(), o.GetName())
			}
		}
	}
}

func TestTwoReleasesShareNoObject(t *testing.T) {
	seen := map[string]string{}
	// The second pair has the same letters with the border elsewhere; the third is in Cilium's own namespace.
	for _, r := range [][2]string{{"a", "b-c"}, {"b-c", "a"}, {"a-b", "c"}, {"a", "b"}, {"c", "a-b"}, {"rel", "kube-system"}} {
		manifests, _ := mustRender(t, helm.RenderOptions{Release: r[0], Namespace: r[1], Values: values(t, "defaults")})
		for _, o := range objects(t, manifests) {
			key := strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, " ")
			if other, ok := seen[key]; ok {
				t.Errorf("%s is rendered for %v and for %s", key, r, other)
			}
			seen[key] = fmt.Sprint(r)
		}
	}
}

func TestN16WithoutCiliumTheNodesAloneAreLookedAfter(t *testing.T) {
	manifests, notes := mustRender(t, helm.RenderOptions{Values: values(t, "no-cilium")})
	for _, o := range objects(t, manifests) {
		if strings.Contains(o.GetName(), "watcher") || o.GetNamespace() == "kube-system" {
			t.Errorf("%s %s/%s is rendered", o.GetKind(), o.GetNamespace(), o.GetName())
		}
	}
	for _, kind := range []string{"DaemonSet rel-install-cni", "DaemonSet rel-agent", "Job rel-leave"} {
		kind, name, _ := strings.Cut(kind, " ")
		args := container(t, find(t, manifests, kind, name))["args"]
		if !slices.Contains(args.([]any), any("--cilium=false")) {
			t.Errorf("%s: args %v", kind, args)
		}
	}
	if strings.Contains(notes, "cni.configMap") || strings.Contains(notes, "watcher") {
		t.Error("the notes must not speak of Cilium or of a watcher")
	}
}

func ciliumEnabled(v map[string]any) bool {
	enabled, found, _ := unstructured.NestedBool(v, "cilium", "enabled")
	return enabled || !found
}

// container is the one container of a pod template.
func container(t *testing.T, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	all, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if err != nil || len(all) != 1 {
		t.Fatalf("%s %s: %d containers: %v", o.GetKind(), o.GetName(), len(all), err)
	}
	return all[0].(map[string]any)
}
