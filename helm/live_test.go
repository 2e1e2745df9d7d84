package helm_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/holdfast-cni/holdfast/helm"
)

const namespace = "holdfast-system"

// TestOnAnAPIServer is one story on a real API server: refused, installed, used, told to leave, upgraded, rolled back, uninstalled.
func TestOnAnAPIServer(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver")
	}
	server := &envtest.Environment{}
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	l := &live{config: config, admin: kubernetes.NewForConfigOrDie(config)}
	watcher := rest.CopyConfig(config)
	watcher.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":rel-watcher"}
	l.watcher = kubernetes.NewForConfigOrDie(watcher)

	for _, step := range []struct {
		name string
		run  func(*live, *testing.T)
	}{
		{"the chart refuses KPR without an address, seen in the cluster", (*live).refusesKPR},
		{"N6 the chart refuses a namespace that admits none of its pods", (*live).refusesNamespace},
		{"N7 the chart installs", (*live).installs},
		{"N6 the notes ask for no label that is there", (*live).admits},
		{"the watcher has the rights it needs and no others", (*live).rights},
		{"C6 fast sync changes one annotation and nothing else", (*live).fastSync},
		{"M1 install-cni has the rights it needs and no others", (*live).nodeRights},
		{"M1 N3 install-cni changes two labels, one taint and one condition of its own Node and nothing else", (*live).nodePolicy},
		{"M1 the agent has the rights it needs and no others", (*live).agentRights},
		{"N14 N15 the agent writes three annotations of the pods of its own Node and nothing else", (*live).agentPolicy},
		{"N12 the image is brought to every ready node before an agent is replaced", (*live).pullsFirst},
		{"C9 an upgrade ends leaving", (*live).upgradeEndsLeaving},
		{"C9 a failed uninstall names its Job, and a rollback ends leaving", (*live).failedUninstallRollsBack},
		{"C9 uninstall leaves Cilium's list", (*live).uninstalls},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(l, t) }) {
			return
		}
	}
}

type live struct {
	config         *rest.Config
	admin, watcher kubernetes.Interface
}

func (l *live) options(t *testing.T) helm.ReleaseOptions {
	return helm.ReleaseOptions{
		Release: "rel", Namespace: namespace, Values: values(t, "defaults"), CreateNamespace: true, DisableHooks: true,
	}
}

func (l *live) install(t *testing.T, o helm.ReleaseOptions) (string, error) {
	t.Helper()
	c, err := helm.Chart()
	if err != nil {
		t.Fatal(err)
	}
	return helm.Install(t.Context(), l.config, c, o)
}

func (l *live) refusesKPR(t *testing.T) {
	maps := l.admin.CoreV1().ConfigMaps("kube-system")
	for _, value := range []string{"true", "strict"} {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "cilium-config"},
			Data:       map[string]string{"kube-proxy-replacement": value},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = l.install(t, l.options(t)); err == nil || !strings.Contains(err.Error(), "--set kubernetesApi.host=") {
			t.Fatalf("kube-proxy-replacement %q: %v", value, err)
		}
		if err := maps.Delete(t.Context(), "cilium-config", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (l *live) installs(t *testing.T) {
	notes, err := l.install(t, l.options(t))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(notes, "configMap: holdfast-cni-config") {
		t.Errorf("notes: %s", notes)
	}
	l.wantState(t, "installed")
}

// apply applies a ConfigMap as the watcher does.
func (l *live) apply(ctx context.Context, ns, name string) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"cni-config":"{}"}}`, name)
	_, err := l.watcher.CoreV1().ConfigMaps(ns).Patch(ctx, name, types.ApplyPatchType, []byte(body),
		metav1.PatchOptions{FieldManager: "holdfast-watcher"})
	return err
}

func (l *live) rights(t *testing.T) {
	for _, m := range []struct{ ns, name string }{{namespace, "rel-holdfast-status"}, {"kube-system", "holdfast-cni-config"}} {
		for _, act := range []string{"create", "change"} {
			if err := l.apply(t.Context(), m.ns, m.name); err != nil {
				t.Errorf("%s by apply: %v", act, err)
			}
		}
	}
	for _, m := range []struct{ ns, name string }{{namespace, "rel-holdfast"}, {"kube-system", "cilium-config"}, {"kube-system", "other"}} {
		if err := l.apply(t.Context(), m.ns, m.name); !apierrors.IsForbidden(err) {
			t.Errorf("apply of %s/%s: %v, want it forbidden", m.ns, m.name, err)
		}
	}
	for _, r := range []authorizationv1.ResourceAttributes{
		{Namespace: "kube-system", Verb: "delete", Resource: "configmaps", Name: "holdfast-cni-config"},
		{Namespace: "kube-system", Verb: "list", Resource: "configmaps"},
		{Namespace: "kube-system", Verb: "get", Resource: "secrets"},
		{Namespace: "kube-system", Verb: "patch", Resource: "pods"},
		{Namespace: "kube-system", Verb: "update", Resource: "pods", Subresource: "status"},
		{Namespace: "default", Verb: "patch", Resource: "pods", Subresource: "status"},
		{Namespace: namespace, Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "other"},
		{Verb: "patch", Resource: "nodes"},
	} {
		review, err := l.watcher.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed {
			t.Errorf("the watcher may %s %s/%s %s in %q", r.Verb, r.Resource, r.Subresource, r.Name, r.Namespace)
		}
	}
}
