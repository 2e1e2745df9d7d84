package helm_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-cni/holdfast/helm"
)

func (l *live) refusesNamespace(t *testing.T) {
	for _, level := range []string{"baseline", "restricted"} {
		o := l.options(t)
		o.Namespace = "is-" + level
		_, err := l.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: o.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": level},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = l.install(t, o); err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("namespace %q enforces the Pod "+
			"Security Standard %q, which admits none of Holdfast's pods: kubectl label namespace %s "+
			"pod-security.kubernetes.io/enforce=privileged --overwrite", o.Namespace, level, o.Namespace)) {
			t.Errorf("%s: %v", level, err)
		}
	}
}

// admits checks that the notes no longer ask for a label that is there.
func (l *live) admits(t *testing.T) {
	_, err := l.admin.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := helm.Chart()
	if err != nil {
		t.Fatal(err)
	}
	notes, err := helm.Upgrade(t.Context(), l.config, c, l.options(t))
	if err != nil || strings.Contains(notes, "pod-security") {
		t.Errorf("%v in:\n%s", err, notes)
	}
}

const (
	unchained = `{"key":"holdfast.dev/unchained","effect":"NoSchedule"}`
	dedicated = `{"key":"dedicated","value":"x","effect":"NoSchedule"}`
	draining  = `{"key":"draining","effect":"NoExecute"}`
	chained   = `{"status":{"conditions":[{"type":"HoldfastChained","status":"True","reason":"Chained","message":"m"}]}}`
)

// node makes a Node as large as they come.
func (l *live) node(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}, Annotations: map[string]string{"keep": "me"},
		Finalizers: []string{"example.com/hold"},
	}}
	for key, value := range labels {
		n.Labels[key] = value
	}
	for i := range 500 {
		n.Labels[fmt.Sprintf("example.com/label-%d", i)] = strings.Repeat("v", 63)
	}
	n, err := l.admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A new Node gets a taint from the API server itself: these replace it.
	n.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "draining", Effect: corev1.TaintEffectNoExecute},
	}
	if n, err = l.admin.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
	}
	n.Status.NodeInfo.KernelVersion = "6.1"
	for i := range 500 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 30, Names: []string{
			fmt.Sprintf("registry.example.com/team/image-%d@sha256:%s", i, strings.Repeat("a", 64)),
			fmt.Sprintf("registry.example.com/team/image-%d:v1", i),
		}})
	}
	if _, err := l.admin.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// installer is a client with the token that the kubelet would give to install-cni on that node; with no node, one with a token
// of the same ServiceAccount that no pod is behind.
func (l *live) installer(t *testing.T, node string) kubernetes.Interface {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod, err := l.admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "install-cni-" + node},
			Spec: corev1.PodSpec{
				NodeName: node, ServiceAccountName: "rel-install-cni", Containers: []corev1.Container{{Name: "c", Image: "i"}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}
	}
	token, err := l.admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "rel-install-cni", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(l.config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return kubernetes.NewForConfigOrDie(config)
}

// change is one patch of a Node.
type change struct{ name, kind, body, says string }

func (c change) apply(ctx context.Context, kube kubernetes.Interface, node string, dryRun ...string) error {
	kind, sub := types.MergePatchType, []string(nil)
	switch c.kind {
	case "status": // as a kubelet patches it: lists are merged by their keys
		kind, sub = types.StrategicMergePatchType, []string{"status"}
	case "status, merge":
		sub = []string{"status"}
	}
	_, err := kube.CoreV1().Nodes().Patch(ctx, node, kind, []byte(c.body), metav1.PatchOptions{DryRun: dryRun}, sub...)
	return err
}

func labels(pairs string) string { return `{"metadata":{"labels":{` + pairs + `}}}` }
func taints(list ...string) string {
	return `{"spec":{"taints":[` + strings.Join(list, ",") + `]}}`
}

func (l *live) nodePolicy(t *testing.T) {
	l.node(t, "a", map[string]string{"holdfast.dev/node": ""})
	l.node(t, "b", map[string]string{"holdfast.dev/node": ""})
	l.node(t, "c", nil)
	own, other, none := l.installer(t, "a"), l.installer(t, "c"), l.installer(t, "")
	open := change{body: labels(`"holdfast.dev/node":"true"`)}

	for deadline := time.Now().Add(30 * time.Second); !apierrors.IsForbidden(open.apply(t.Context(), none, "a", metav1.DryRunAll)); {
		if time.Now().After(deadline) {
			t.Fatal("the policy is not in force after 30 s")
		}
		time.Sleep(50 * time.Millisecond)
	}

	const stranger = "only the Node that its own pod runs on"
	for _, c := range []struct {
		name string
		kube kubernetes.Interface
		node string
	}{{"another Node", own, "b"}, {"another pod's token", other, "a"}, {"a token that no pod is behind", none, "a"}} {
		for _, body := range []change{open, {kind: "status", body: chained}} {
			wantRefused(t, change{name: c.name, kind: body.kind, body: body.body, says: stranger}, c.kube, c.node)
		}
	}
	for _, c := range allowedChanges {
		if err := c.apply(t.Context(), own, "a"); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if !lookAt[c.name] {
			continue
		}
		for _, refused := range refusedChanges {
			wantRefused(t, refused, own, "a")
		}
	}
	wantRefused(t, change{"our label through the status", "status", labels(`"holdfast.dev/installed":"true"`), "no annotation"}, own, "a")
	wantRefused(t, change{"registering", "", labels(`"holdfast.dev/node":"true"`), "the label holdfast.dev/node"}, other, "c")
	if err := (change{body: labels(`"example.com/free":"yes"`)}).apply(t.Context(), l.admin, "a"); err != nil {
		t.Errorf("the policy must hold nobody but install-cni: %v", err)
	}
	l.comparesResourceVersions(t, own)
}

func (l *live) comparesResourceVersions(t *testing.T, own kubernetes.Interface) {
	n, err := own.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(version string) change {
		return change{body: fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{"holdfast.dev/node":"true"}}}`, version)}
	}
	if err := at(n.ResourceVersion).apply(t.Context(), own, "a"); err != nil {
		t.Errorf("with the resourceVersion that was read: %v", err)
	}
	if err := at(n.ResourceVersion).apply(t.Context(), own, "a"); !apierrors.IsConflict(err) {
		t.Errorf("with an old resourceVersion: %v", err)
	}
}

// allowedChanges are the life of a node, in order.
var allowedChanges = []change{
	{name: "registered", body: labels(`"holdfast.dev/node":"false","holdfast.dev/installed":"true"`)},
	{name: "tainted, ours first", body: taints(unchained, dedicated, draining)},
	{name: "a condition", kind: "status", body: strings.Replace(chained, `"True"`, `"False"`, 1)},
	{name: "the condition changes", kind: "status", body: chained},
	{name: "opened, others in another order", body: `{"metadata":{"labels":{"holdfast.dev/node":"true"}},"spec":{"taints":[` + draining + `,` + dedicated + `]}}`},
	{name: "closed", body: `{"spec":{"taints":[` + dedicated + `,` + unchained + `,` + draining + `]},"metadata":{"labels":{"holdfast.dev/node":"false"}}}`},
	{name: "the condition goes", kind: "status", body: `{"status":{"conditions":[{"$patch":"delete","type":"HoldfastChained"}]}}`},
	{name: "taken out", body: `{"spec":{"taints":[` + dedicated + `,` + draining + `]},"metadata":{"labels":{"holdfast.dev/installed":null}}}`},
}

// lookAt are the states of that life in which all that is refused is tried: open, closed and gone.
var lookAt = map[string]bool{"registered": true, "the condition changes": true, "taken out": true}

// refusedChanges are refused in every state.
var refusedChanges = []change{
	{"the label removed", "", labels(`"holdfast.dev/node":null`), "the label holdfast.dev/node"},
	{"a third value", "", labels(`"holdfast.dev/node":"maybe"`), "the label holdfast.dev/node"},
	{"installed, another value", "", labels(`"holdfast.dev/installed":"false"`), "the label holdfast.dev/installed"},
	{"a new label", "", labels(`"x":"y"`), "no other label"},
	{"another label of ours", "", labels(`"holdfast.dev/x":"y"`), "no other label"},
	{"a label changed", "", labels(`"kubernetes.io/os":"windows"`), "no other label"},
	{"a label removed", "", labels(`"example.com/label-7":null`), "no other label"},
	{"a label beside ours", "", labels(`"holdfast.dev/node":"true","x":"y"`), "no other label"},
	{"a new annotation", "", `{"metadata":{"annotations":{"x":"y"}}}`, "no annotation"},
	{"an annotation removed", "", `{"metadata":{"annotations":null}}`, "no annotation"},
	{"a new finalizer", "", `{"metadata":{"finalizers":["example.com/hold","example.com/x"]}}`, "no annotation, finalizer"},
	{"a finalizer removed", "", `{"metadata":{"finalizers":null}}`, "no annotation, finalizer"},
	{"an owner", "", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"b","uid":"u"}]}}`, "no annotation, finalizer, owner"},
	{"a new taint", "", taints(dedicated, draining, `{"key":"x","effect":"NoSchedule"}`), "no taint but"},
	{"a taint removed", "", taints(dedicated), "no taint but"},
	{"a taint for ours", "", taints(dedicated, unchained), "no taint but"},
	{"all taints removed", "", `{"spec":{"taints":null}}`, "no taint but"},
	{"a taint changed", "", taints(`{"key":"dedicated","value":"y","effect":"NoSchedule"}`, draining), "no taint but"},
	{"our taint that evicts", "", taints(dedicated, draining, `{"key":"holdfast.dev/unchained","effect":"NoExecute"}`), "no taint but"},
	{"cordoned", "", `{"spec":{"unschedulable":true}}`, "nothing of the spec"},
	{"podCIDR", "", `{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"]}}`, "nothing of the spec"},
	{"providerID", "", `{"spec":{"providerID":"x://y"}}`, "nothing of the spec"},
	{"a new condition", "status", `{"status":{"conditions":[{"type":"X","status":"True"}]}}`, "no condition but"},
	{"a condition changed", "status", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "no condition but"},
	{"a condition removed", "status", `{"status":{"conditions":[{"$patch":"delete","type":"DiskPressure"}]}}`, "no condition but"},
	{"all conditions removed", "status, merge", `{"status":{"conditions":null}}`, "no condition but"},
	{"a condition beside ours", "status", strings.Replace(chained, `}]`, `},{"type":"Ready","status":"False"}]`, 1), "no condition but"},
	{"capacity", "status", `{"status":{"capacity":{"cpu":"1k"}}}`, "nothing of the status"},
	{"images removed", "status, merge", `{"status":{"images":null}}`, "nothing of the status"},
	{"an address", "status", `{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`, "nothing of the status"},
	{"the kernel", "status", `{"status":{"nodeInfo":{"kernelVersion":"7"}}}`, "nothing of the status"},
	{"a label through the status", "status", labels(`"x":"y"`), "no other label"},
	{"an annotation through the status", "status", `{"metadata":{"annotations":{"x":"y"}}}`, "no annotation"},
}

func wantRefused(t *testing.T, c change, kube kubernetes.Interface, node string) {
	t.Helper()
	err := c.apply(t.Context(), kube, node, metav1.DryRunAll)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied request: holdfast install-cni: "+c.says) {
		t.Errorf("%s: %s %s: %v", c.name, c.kind, c.body, err)
	}
}

func (l *live) nodeRights(t *testing.T) {
	config := rest.CopyConfig(l.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":rel-install-cni"}
	kube := kubernetes.NewForConfigOrDie(config)
	for _, r := range []struct {
		may bool
		authorizationv1.ResourceAttributes
	}{
		{true, authorizationv1.ResourceAttributes{Verb: "watch", Resource: "nodes"}},
		{true, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes", Subresource: "status"}},
		{true, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "watch", Resource: "configmaps", Name: "rel-holdfast"}},
		{true, authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: "get", Resource: "configmaps", Name: "cilium-config"}},
		{true, authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: "watch", Resource: "configmaps", Name: "holdfast-cni-config"}},
		{true, authorizationv1.ResourceAttributes{Namespace: "default", Verb: "create", Group: "events.k8s.io", Resource: "events"}},
		{false, authorizationv1.ResourceAttributes{Verb: "update", Resource: "nodes"}},
		{false, authorizationv1.ResourceAttributes{Verb: "delete", Resource: "nodes"}},
		{false, authorizationv1.ResourceAttributes{Verb: "create", Resource: "nodes"}},
		{false, authorizationv1.ResourceAttributes{Verb: "update", Resource: "nodes", Subresource: "status"}},
		{false, authorizationv1.ResourceAttributes{Verb: "get", Resource: "nodes", Subresource: "proxy"}},
		{false, authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}},
		{false, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Resource: "configmaps"}},
		{false, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch", Resource: "configmaps", Name: "rel-holdfast"}},
		{false, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "secrets"}},
		{false, authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: "patch", Resource: "configmaps", Name: "holdfast-cni-config"}},
		{false, authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: "create", Group: "events.k8s.io", Resource: "events"}},
	} {
		review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r.ResourceAttributes}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != r.may {
			t.Errorf("install-cni may %s %s/%s %s in %q: %v, want %v", r.Verb, r.Resource, r.Subresource, r.Name, r.Namespace, review.Status.Allowed, r.may)
		}
	}
}
