package cluster_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/helm"
	"github.com/holdfast-cni/holdfast/watcher"
)

const time3h = 3 * time.Hour

// pod makes a running pod of Cilium's agent.
func (s *site) pod(ctx SpecContext, name, node string, started time.Time) {
	GinkgoHelper()
	pods := plane.Kube.CoreV1().Pods(s.cilium)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{configmap.AgentLabel: configmap.AgentLabelValue}, Annotations: map[string]string{"other": "1"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "cilium-agent", Image: "i"}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	at := metav1.NewTime(started)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &at}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (s *site) synced(ctx SpecContext, pod string) func() string {
	return func() string {
		p, err := plane.Kube.CoreV1().Pods(s.cilium).Get(ctx, pod, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		return p.Annotations[watcher.SyncAnnotation]
	}
}

func (s *site) upgrade(ctx SpecContext) {
	GinkgoHelper()
	chart, err := helm.Chart()
	Expect(err).NotTo(HaveOccurred())
	_, err = helm.Upgrade(ctx, plane.Config, chart, helm.ReleaseOptions{Release: s.release, Namespace: s.namespace, Values: s.values, DisableHooks: true})
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("C6: the fast sync", func() {
	It("annotates Cilium's pods when the list changes, and no pod twice", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.setCilium(ctx)
		s.deploy(ctx)
		s.pod(ctx, "cilium-old", "n1", time.Now().Add(-time3h))
		s.watch(ctx)
		Eventually(s.text).WithContext(ctx).ShouldNot(BeEmpty())
		digest := func() string { cm, _ := s.list(ctx); return cm.Annotations[configmap.DigestAnnotation] }
		Eventually(s.synced(ctx, "cilium-old")).Should(Equal(digest()))
		before := digest()
		s.setPlugin(ctx, plugined("10.96.0.20"))
		Eventually(s.synced(ctx, "cilium-old")).ShouldNot(Equal(before))
		Expect(s.synced(ctx, "cilium-old")()).To(Equal(digest()))

		By("leaving a pod that started after the change alone")
		s.pod(ctx, "cilium-new", "n2", time.Now().Add(time3h))
		s.setCilium(ctx) // an event, so that the loop looks
		Consistently(s.synced(ctx, "cilium-new"), "1s").Should(BeEmpty())
	})

	It("is off, and says so, while the policy that bounds it is absent", func(ctx SpecContext) {
		s := newSite(ctx, map[string]any{"fastSync": map[string]any{"policy": false}})
		s.setCilium(ctx)
		s.deploy(ctx)
		s.pod(ctx, "cilium-old", "n1", time.Now().Add(-time3h))
		s.watch(ctx)
		Eventually(s.ids(ctx)).Should(ContainElement(configmap.FastSyncUnbound))
		Expect(s.synced(ctx, "cilium-old")()).To(BeEmpty())

		By("turning on by itself once the policy is there")
		s.values["fastSync"] = map[string]any{"policy": true}
		s.upgrade(ctx)
		Eventually(func() string {
			s.setPlugin(ctx, plugined("10.96.0.21"))
			s.setPlugin(ctx, plugined("10.96.0.22"))
			return s.synced(ctx, "cilium-old")()
		}).ShouldNot(BeEmpty())
		Eventually(s.ids(ctx)).ShouldNot(ContainElement(configmap.FastSyncUnbound))
	})

	It("cannot do anything else to a pod, nor the same to another's", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.pod(ctx, "cilium", "n1", time.Now())
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i"}}}}
		_, err := plane.Kube.CoreV1().Pods(s.cilium).Create(ctx, other, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		config, err := plane.As(ctx, s.namespace, s.release+"-watcher")
		Expect(err).NotTo(HaveOccurred())
		kube, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		patch := func(pod, body string, subresources ...string) error {
			_, err := kube.CoreV1().Pods(s.cilium).Patch(ctx, pod, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
			return err
		}
		tries := 0
		Eventually(func() error {
			tries++
			return patch("cilium", fmt.Sprintf(`{"metadata":{"annotations":{"x":"%d"}}}`, tries), "status")
		}).Should(MatchError(ContainSubstring("holdfast fast sync:"))) // a new policy takes a moment to be in force
		Expect(patch("cilium", `{"metadata":{"annotations":{"holdfast.dev/sync":"1"}}}`, "status")).To(Succeed())
		for _, body := range []string{
			`{"metadata":{"annotations":{"other":"2"}}}`, `{"metadata":{"annotations":{"other":null}}}`, `{"metadata":{"annotations":null}}`,
			`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"labels":null}}`, `{"metadata":{"finalizers":["a.b/c"]}}`,
			`{"status":{"phase":"Failed"}}`, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
		} {
			Expect(patch("cilium", body, "status")).To(MatchError(ContainSubstring("holdfast fast sync:")), body)
		}
		Expect(patch("other", `{"metadata":{"annotations":{"holdfast.dev/sync":"1"}}}`, "status")).To(MatchError(ContainSubstring("holdfast fast sync:")))
		Expect(apierrors.IsForbidden(patch("cilium", `{"spec":{"containers":[{"name":"cilium-agent","image":"evil"}]}}`))).To(BeTrue())
	})
})
