package agent

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/agent/contract"
	"github.com/holdfast-cni/holdfast/watcher"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// world is what is looked at on the API server: the node's pods, the release's ConfigMap, and the Node's condition.
type world struct {
	options            *Options
	kube               kubernetes.Interface
	pods, config, node *feed.Feed

	mu      sync.Mutex
	version string     // of the ConfigMap that was read last
	good    *Governing // as last read without a fault
	fault   error
	since   time.Time // when plugin.json was last changed; zero: unknown
	leaving bool
}

func newWorld(c *feed.Clients, o *Options) *world {
	pods := feed.Of(c, c.Kube.CoreV1().Pods(metav1.NamespaceAll))
	// Of pods that have ended there may be ten thousand, as large as their authors like.
	pods.Field = fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", o.Node),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	).String()
	return &world{
		options: o,
		kube:    c.Kube,
		pods:    feed.New("pods of Node "+o.Node, &corev1.Pod{}, pods, stripPod),
		config:  feed.ConfigMap(c, o.Namespace, watcher.ConfigName(o.Release)),
		node:    feed.New("Node "+o.Node, &corev1.Node{}, feed.WithName(feed.Of(c, c.Kube.CoreV1().Nodes()), o.Node), stripNode),
	}
}

// stripPod keeps what decides.
func stripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return contract.Judged(pod, corev1.MirrorPodAnnotationKey, hashAnnotation, watcher.GovernedAnnotation, watcher.CutAnnotation,
		watcher.CutOffAnnotation, watcher.ProofAnnotation, watcher.EvictAnnotation), nil
}

func stripNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	slim := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID}}
	for _, c := range node.Status.Conditions {
		if string(c.Type) == watcher.ChainedCondition {
			slim.Status.Conditions = append(slim.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status, Message: c.Message})
		}
	}
	return slim, nil
}

// start runs every feed until the context ends, and calls changed after each change.
func (w *world) start(ctx context.Context, changed func()) (wait func()) {
	var group sync.WaitGroup
	for _, f := range []*feed.Feed{w.pods, w.config, w.node} {
		f.Subscribe(changed)
		group.Go(func() { f.Run(ctx) })
	}
	return group.Wait
}

// read reports whether everything without which nothing can be decided was read, once.
func (w *world) read() error {
	for _, f := range []*feed.Feed{w.pods, w.config} {
		if synced, err := f.State(); !synced {
			return fmt.Errorf("%s was not read yet: %v", f.What, err)
		}
	}
	_, err := w.governing()
	return err
}

// inForce is what is gone by, all of one reading of the ConfigMap.
type inForce struct {
	Governing
	changed time.Time // when plugin.json was last changed, as the API server recorded it; zero: unknown
	leaving bool      // the release is
}

// governing is what plugin.json says, or said when this process last read it without fault. The error is why there is none to go by:
// then no pod is adopted, and a mistake in it frees no pod, as running ones are judged by what this node remembers (see judgeAll).
func (w *world) governing() (inForce, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if config, found := feed.One[*corev1.ConfigMap](w.config); found && config.ResourceVersion != w.version {
		w.version, w.leaving = config.ResourceVersion, watcher.Leaving(config.Data)
		read, err := w.options.Read([]byte(config.Data[watcher.PluginKey]), w.options.reserved()...)
		w.fault = err
		if err == nil {
			w.good, w.since = &read, changedAt(config)
		}
	}
	now := inForce{changed: w.since, leaving: w.leaving}
	switch {
	case w.good != nil:
		now.Governing = *w.good
		return now, nil
	case w.fault != nil:
		return now, w.fault
	}
	if _, err := w.config.State(); err != nil {
		return now, fmt.Errorf("%s can't be read: %w", w.config.What, err)
	}
	return now, fmt.Errorf("%s was not read yet, or is not there", w.config.What)
}

// changedAt is when the key plugin.json was last written. Each manager's entry has the time of its last change of any of its fields
// (KEP-555); of those that own the key, the latest counts.
func changedAt(config *corev1.ConfigMap) (at time.Time) {
	for _, entry := range config.ManagedFields {
		if entry.FieldsV1 != nil && entry.Time != nil && regexp.MustCompile(`"f:plugin\.json"`).Match(entry.FieldsV1.GetRawBytes()) && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}

// governs reports whether a pod is governed by its namespace or by what it says itself. Reserved namespaces never are.
func (w *world) governs(g Governing, namespace string, annotations map[string]string) bool {
	if slices.Contains(w.options.reserved(), namespace) {
		return false
	}
	return slices.Contains(g.Namespaces, namespace) || annotations[watcher.GovernedAnnotation] == "true"
}

// hashAnnotation is where the kubelet writes the UID of a static pod on its mirror (kubernetes, pkg/kubelet/types/pod_update.go).
const hashAnnotation = "kubernetes.io/config.hash"

// isMirror reports whether an object of the API server is only the image of a static pod. What the pod is, its file on the node says:
// whoever may create pods may make a mirror, which the kubelet doesn't run, of whatever pod with whatever UID.
func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// uidOf is the UID that the runtime and the plugin know a pod by, or, of a mirror, the one that it claims. Nothing is allowed for a claim.
func uidOf(pod *corev1.Pod) string {
	if isMirror(pod) {
		return pod.Annotations[hashAnnotation]
	}
	return string(pod.UID)
}

// shown is the node's pod of that name and UID, as last seen, or what claims to be its mirror; nil if there is none. It is for telling.
func (w *world) shown(namespace, name, uid string) *corev1.Pod {
	object, found, err := w.pods.GetByKey(namespace + "/" + name)
	if pod, ok := object.(*corev1.Pod); err == nil && found && ok && uidOf(pod) == uid {
		return pod
	}
	return nil
}

// pod is the node's pod of that name and UID, as last seen; nil if there is none. It is what a pod may be judged by: no mirror.
func (w *world) pod(namespace, name, uid string) *corev1.Pod {
	if pod := w.shown(namespace, name, uid); pod != nil && !isMirror(pod) {
		return pod
	}
	return nil
}

// all are the node's pods.
func (w *world) all() []*corev1.Pod { return feed.All[*corev1.Pod](w.pods) }

// lookTime bounds a live read.
const lookTime = 4 * time.Second

// find asks the API server itself if the pod wasn't seen yet. A static pod is refused: nothing that can be asked says what it is.
func (w *world) find(ctx context.Context, namespace, name, uid string) (*corev1.Pod, *adopt.Refusal) {
	if synced, _ := w.pods.State(); synced {
		if pod := w.pod(namespace, name, uid); pod != nil {
			return pod, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	pod, err := w.kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil && isMirror(pod):
		return nil, refuse(refusedStatic, staticFix, "pod %s/%s is a static one, whose file on the node nobody can check", namespace, name)
	case apierrors.IsNotFound(err), err == nil && string(pod.UID) != uid:
		return nil, later(refusedUnknown, "see that the kubelet reaches the API server; if the pod is a static one, "+staticFix,
			"the API server has no pod %s/%s of UID %s", namespace, name, uid)
	case err != nil:
		return nil, later(refusedUnreachable, "see that the agent on this node reaches the API server", "the API server can't be asked about pod %s/%s: %v", namespace, name, err)
	case pod.Spec.NodeName != w.options.Node:
		return nil, refuse(refusedElsewhere, "delete the pod", "pod %s/%s is of Node %q", namespace, name, pod.Spec.NodeName)
	}
	return pod, nil
}

// said finds the proof in what install-cni says of an open node.
var said = regexp.MustCompile(`\bproof (runtime|file)\b`)

// chainProof is what the node's chain is proved by now: runtime, file, or unverified where nothing says that it is.
func (w *world) chainProof() string {
	node, found := feed.One[*corev1.Node](w.node)
	if found {
		for _, c := range node.Status.Conditions {
			if match := said.FindStringSubmatch(c.Message); c.Type == watcher.ChainedCondition && c.Status == corev1.ConditionTrue && match != nil {
				return match[1]
			}
		}
	}
	return "unverified"
}
