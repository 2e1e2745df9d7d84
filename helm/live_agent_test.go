package helm_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-cni/holdfast/helm"
)

// agentOn is a client with the token that the kubelet would give to the agent on that node; with no node, one with a token that no
// pod is behind.
func (l *live) agentOn(t *testing.T, node string) kubernetes.Interface {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod, err := l.admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "agent-" + node},
			Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: "rel-agent", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	token, err := l.admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "rel-agent", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(l.config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return kubernetes.NewForConfigOrDie(config)
}

// governed is a pod on a node, as the agent finds it.
func (l *live) governed(t *testing.T, name, node string) {
	t.Helper()
	_, err := l.admin.CoreV1().Pods("agents").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"keep": "me", "holdfast.dev/cut": "asked"},
			Finalizers: []string{"example.com/hold"}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (l *live) agentPolicy(t *testing.T) {
	if _, err := l.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "agents"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.CoreV1().ServiceAccounts("agents").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.governed(t, "here", "a")
	l.governed(t, "there", "b")
	l.governed(t, "nowhere", "")
	own, none := l.agentOn(t, "a"), l.agentOn(t, "")
	patch := func(kube kubernetes.Interface, pod, body string, dryRun ...string) error {
		_, err := kube.CoreV1().Pods("agents").Patch(t.Context(), pod, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dryRun}, "status")
		return err
	}
	annotate := func(pairs string) string { return `{"metadata":{"annotations":{` + pairs + `}}}` }
	proof := annotate(`"holdfast.dev/proof":"chain=runtime"`)
	for deadline := time.Now().Add(30 * time.Second); !apierrors.IsForbidden(patch(none, "here", proof, metav1.DryRunAll)); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the policy is not in force after 30 s")
		}
	}
	for _, allowed := range []string{
		proof, annotate(`"holdfast.dev/proof":"chain=file","holdfast.dev/evict":"existing"`), annotate(`"holdfast.dev/cut-off":"Requested: asked"`),
		annotate(`"holdfast.dev/cut-off":"` + strings.Repeat("x", 4096) + `"`),
	} {
		if err := patch(own, "here", allowed); err != nil {
			t.Errorf("%.80s: %v", allowed, err)
		}
	}
	const stranger = "only pods of the Node that its own pod runs on"
	for _, refused := range []struct {
		kube            kubernetes.Interface
		pod, body, says string
	}{
		{own, "there", proof, stranger},
		{own, "nowhere", proof, stranger},
		{none, "here", proof, stranger},
		{own, "here", annotate(`"holdfast.dev/cut-off":null`), "no annotation but"},
		{own, "here", annotate(`"holdfast.dev/proof":"` + strings.Repeat("x", 4097) + `"`), "its annotations hold at most 4096"},
		{own, "here", annotate(`"holdfast.dev/cut":"for us"`), "no annotation but"},
		{own, "here", annotate(`"holdfast.dev/cut":null`), "no annotation but"},
		{own, "here", annotate(`"holdfast.dev/governed":"false"`), "no annotation but"},
		{own, "here", annotate(`"keep":"not"`), "no annotation but"},
		{own, "here", `{"metadata":{"annotations":null}}`, "no annotation but"},
		{own, "here", `{"metadata":{"labels":{"x":"y"}}}`, "no label, finalizer, owner"},
		{own, "here", `{"metadata":{"finalizers":null}}`, "no label, finalizer, owner"},
		{own, "here", `{"status":{"phase":"Failed"}}`, "the status may not change"},
		{own, "here", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "the status may not change"},
	} {
		err := patch(refused.kube, refused.pod, refused.body, metav1.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied request: holdfast agent: "+refused.says) {
			t.Errorf("%s %.80s: %v", refused.pod, refused.body, err)
		}
	}
	if err := patch(l.admin, "here", `{"status":{"phase":"Running"}}`); err != nil {
		t.Errorf("the policy must hold nobody but the agent: %v", err)
	}
	l.agentResults(t)
}

// agentResults: what the agent has said of a pod, nobody else may say, at its creation or later, nor take back.
func (l *live) agentResults(t *testing.T) {
	create := func(annotations map[string]string) error {
		_, err := l.admin.CoreV1().Pods("agents").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "new", Annotations: annotations}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	patch := func(pairs string, subresources ...string) error {
		_, err := l.admin.CoreV1().Pods("agents").Patch(t.Context(), "here", types.MergePatchType, []byte(`{"metadata":{"annotations":{`+pairs+`}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
		return err
	}
	for what, err := range map[string]error{
		"created as cut off":  create(map[string]string{"holdfast.dev/cut-off": "Requested: x"}),
		"created as proved":   create(map[string]string{"holdfast.dev/proof": "chain=runtime"}),
		"created as evicted":  create(map[string]string{"holdfast.dev/evict": "existing"}),
		"said otherwise":      patch(`"holdfast.dev/proof":"chain=x"`),
		"said in the status":  patch(`"holdfast.dev/proof":"chain=x"`, "status"),
		"taken back":          patch(`"holdfast.dev/cut-off":null`),
		"taken back with all": patch(`"holdfast.dev/cut-off":null,"holdfast.dev/evict":null,"holdfast.dev/proof":null,"keep":null`),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied request: holdfast: only the agent writes") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"created":             create(nil),
		"created as governed": create(map[string]string{"holdfast.dev/governed": "true"}),
		"asked for":           patch(`"holdfast.dev/cut":"now"`),
		"another":             patch(`"keep":"that"`),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func (l *live) agentRights(t *testing.T) {
	config := rest.CopyConfig(l.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":rel-agent"}
	kube := kubernetes.NewForConfigOrDie(config)
	for _, r := range []struct {
		may bool
		authorizationv1.ResourceAttributes
	}{
		{true, authorizationv1.ResourceAttributes{Verb: "watch", Resource: "pods"}},
		{true, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "get", Resource: "pods"}},
		{true, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "patch", Resource: "pods", Subresource: "status"}},
		{true, authorizationv1.ResourceAttributes{Verb: "watch", Resource: "nodes"}},
		{true, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "create", Group: "events.k8s.io", Resource: "events"}},
		{true, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "watch", Resource: "configmaps", Name: "rel-holdfast"}},
		{false, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "patch", Resource: "pods"}},
		{false, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "delete", Resource: "pods"}},
		{false, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "create", Resource: "pods"}},
		{false, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "create", Resource: "pods", Subresource: "eviction"}},
		{false, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "create", Resource: "pods", Subresource: "exec"}},
		{false, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "update", Resource: "pods", Subresource: "status"}},
		{false, authorizationv1.ResourceAttributes{Namespace: "any", Verb: "get", Resource: "pods", Subresource: "log"}},
		{false, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}},
		{false, authorizationv1.ResourceAttributes{Verb: "list", Resource: "namespaces"}},
		{false, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch", Resource: "configmaps", Name: "rel-holdfast"}},
		{false, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "secrets"}},
	} {
		review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r.ResourceAttributes}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != r.may {
			t.Errorf("the agent may %s %s/%s %s in %q: %v, want %v", r.Verb, r.Resource, r.Subresource, r.Name, r.Namespace, review.Status.Allowed, r.may)
		}
	}
}

// pullsFirst upgrades with hooks; the test runs the Job, as there is no controller.
func (l *live) pullsFirst(t *testing.T) {
	c, err := helm.Chart()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.admin.CoreV1().Nodes().Patch(t.Context(), "a", types.MergePatchType, []byte(labels(`"kubernetes.io/hostname":"a"`)), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	ran := make(chan *batchv1.Job, 1)
	go func() {
		for t.Context().Err() == nil {
			if job, err := l.admin.BatchV1().Jobs(namespace).Get(t.Context(), "rel-agent-pull", metav1.GetOptions{}); err == nil {
				now := metav1.Now()
				job.Status = batchv1.JobStatus{Succeeded: *job.Spec.Completions, StartTime: &now, CompletionTime: &now, Conditions: []batchv1.JobCondition{
					{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
				}}
				if job, err = l.admin.BatchV1().Jobs(namespace).UpdateStatus(t.Context(), job, metav1.UpdateOptions{}); err == nil {
					ran <- job
					return
				}
				t.Log(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o := l.options(t)
	o.DisableHooks = false
	if _, err := helm.Upgrade(ctx, l.config, c, o); err != nil {
		t.Fatal(err)
	}
	job := <-ran
	terms := job.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if *job.Spec.Completions != 1 || *job.Spec.Parallelism != 1 || !slices.Equal(terms[0].MatchExpressions[0].Values, []string{"a"}) {
		t.Errorf("%d pods on %v, for one node that is registered and ready", *job.Spec.Completions, terms)
	}
	if _, err := l.admin.BatchV1().Jobs(namespace).Get(t.Context(), "rel-agent-pull", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Job stays: %v", err)
	}
}
