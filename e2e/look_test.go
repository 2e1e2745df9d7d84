//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/e2e/lab"
	"github.com/holdfast-cni/holdfast/helm"
	"github.com/holdfast-cni/holdfast/watcher"
)

func values(controlPlane, digest string, more map[string]any) map[string]any {
	v := map[string]any{
		"image":         map[string]any{"registry": "localhost", "repository": "holdfast", "digest": digest},
		"plugin":        map[string]any{"resolvers": []any{"10.96.0.10"}},
		"kubernetesApi": map[string]any{"host": controlPlane, "port": 6443},
		"cilium":        map[string]any{"kubeProxyReplacement": true},
		"watcher":       map[string]any{"replicas": 1},
	}
	for key, value := range more {
		v[key] = value
	}
	return v
}

func release(controlPlane, digest string, more map[string]any) helm.ReleaseOptions {
	return helm.ReleaseOptions{Release: "holdfast", Namespace: ours, Values: values(controlPlane, digest, more)}
}

// install installs the chart into a namespace of its own.
func install(ctx context.Context, l *lab.Lab, controlPlane, digest string, more map[string]any) {
	GinkgoHelper()
	_, err := l.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ours,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	chart, err := helm.Chart()
	Expect(err).NotTo(HaveOccurred())
	_, err = helm.Install(ctx, l.Config, chart, release(controlPlane, digest, more))
	Expect(err).NotTo(HaveOccurred())
}

func upgrade(ctx context.Context, l *lab.Lab, controlPlane, digest string, more map[string]any) {
	GinkgoHelper()
	chart, err := helm.Chart()
	Expect(err).NotTo(HaveOccurred())
	_, err = helm.Upgrade(ctx, l.Config, chart, release(controlPlane, digest, more))
	Expect(err).NotTo(HaveOccurred())
}

// list is what Cilium reads.
func list(ctx context.Context, l *lab.Lab) (string, error) {
	cm, err := l.Kube.CoreV1().ConfigMaps(ciliums).Get(ctx, configmap.DefaultConfigMap, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return cm.Data[configmap.DefaultKey], nil
}

// findings are what the watcher reports.
func findings(ctx context.Context, l *lab.Lab) ([]configmap.Finding, error) {
	cm, err := l.Kube.CoreV1().ConfigMaps(ours).Get(ctx, watcher.StatusName("holdfast"), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var all []configmap.Finding
	return all, yaml.Unmarshal([]byte(cm.Data["findings"]), &all)
}

// asked are the digests of the lists that the agents' pods were asked to sync.
func asked(ctx context.Context, l *lab.Lab) ([]string, error) {
	pods, err := agents(ctx, l)
	var digests []string
	for _, pod := range pods {
		digests = append(digests, pod.Annotations[watcher.SyncAnnotation])
	}
	return digests, err
}

func listDigest(ctx context.Context, l *lab.Lab) string {
	GinkgoHelper()
	text, err := list(ctx, l)
	Expect(err).NotTo(HaveOccurred())
	return configmap.Digest([]byte(text))
}

// watchersOf are the watcher's pods.
func watchersOf(ctx context.Context, l *lab.Lab) ([]corev1.Pod, error) {
	pods, err := l.Kube.CoreV1().Pods(ours).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=watcher"})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

func agents(ctx context.Context, l *lab.Lab) ([]corev1.Pod, error) {
	pods, err := l.Kube.CoreV1().Pods(ciliums).List(ctx, metav1.ListOptions{LabelSelector: configmap.AgentLabel + "=" + configmap.AgentLabelValue})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

func ready(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podReady(ctx context.Context, l *lab.Lab, namespace, name string) bool {
	pod, err := l.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	return err == nil && ready(*pod)
}

// notReady lists the nodes that are not Ready.
func notReady(ctx context.Context, l *lab.Lab) ([]string, error) {
	nodes, err := l.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, n := range nodes.Items {
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			names = append(names, n.Name)
		}
	}
	return names, nil
}

func eventNotes(ctx context.Context, l *lab.Lab, namespace string) ([]string, error) {
	events, err := l.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var notes []string
	for _, e := range events.Items {
		notes = append(notes, e.Message)
	}
	return notes, nil
}

// restarts counts the restarts of each pod's containers.
func restarts(ctx context.Context, l *lab.Lab, namespace, selector string) map[string]int32 {
	GinkgoHelper()
	pods, err := l.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	Expect(err).NotTo(HaveOccurred())
	counts := map[string]int32{}
	for _, pod := range pods.Items {
		for _, c := range pod.Status.ContainerStatuses {
			counts[pod.Name+"/"+string(pod.UID)] += c.RestartCount
		}
	}
	return counts
}

// probe is the image of test pods, which every node of a kind cluster made here has.
const probe = "localhost/holdfast-probe:1"

func servePod(name, node string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "served"}, Annotations: annotations},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "probe", Image: probe, ImagePullPolicy: corev1.PullNever, Args: []string{"serve"},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}}}},
		},
	}
}

// servePods makes a namespace with a pod that serves on each node, behind a Service, all of that name.
func servePods(ctx context.Context, l *lab.Lab, nodes []*lab.Node, name string) {
	GinkgoHelper()
	_, err := l.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return // an earlier spec made it
	}
	Expect(err).NotTo(HaveOccurred())
	_, err = l.Kube.CoreV1().Services(name).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 8080}}}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, node := range nodes {
		pod := servePod("pod-"+node.Name, node.Name, nil)
		pod.Labels["app"] = name
		Eventually(func() error { // the namespace's ServiceAccount is made by a controller
			_, err := l.Kube.CoreV1().Pods(name).Create(ctx, pod, metav1.CreateOptions{})
			return err
		}).WithContext(ctx).Should(Succeed())
	}
	for _, node := range nodes {
		Eventually(podReady).WithContext(ctx).WithArguments(l, name, "pod-"+node.Name).Should(BeTrue())
	}
}

func setHostOnly(ctx context.Context, l *lab.Lab, value string) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, configmap.KeySocketLBHostOnly, value)
	_, err := l.Kube.CoreV1().ConfigMaps(ciliums).Patch(ctx, configmap.DefaultConfigName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// restartAgents deletes the agents' pods and waits for as many new ones.
func restartAgents(ctx context.Context, l *lab.Lab, count int) {
	GinkgoHelper()
	began := metav1.NewTime(time.Now().Truncate(time.Second))
	pods, err := agents(ctx, l)
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods {
		Expect(l.Kube.CoreV1().Pods(ciliums).Delete(ctx, pod.Name, metav1.DeleteOptions{})).To(Succeed())
	}
	fresh := func(pod corev1.Pod) bool { return !pod.CreationTimestamp.Before(&began) && ready(pod) }
	Eventually(agents).WithContext(ctx).WithArguments(l).Should(And(HaveLen(count), HaveEach(Satisfy(fresh))))
}

// loadedTypes are the types of the plugins that the node's runtime has loaded.
func loadedTypes(ctx context.Context, node *lab.Node) []string {
	GinkgoHelper()
	plugins, _, err := node.Loaded(ctx)
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, plugin := range plugins {
		entry, err := chaining.ParseEntry([]byte(plugin))
		Expect(err).NotTo(HaveOccurred())
		names = append(names, entry.Type())
	}
	return names
}
