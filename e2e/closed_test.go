//go:build e2e

package e2e

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/e2e/lab"
)

var _ = describe("nodes that register closed", Ordered, Label(full), func() {
	var l *lab.Lab
	BeforeAll(func(ctx SpecContext) {
		l = makeLab(ctx, lab.Options{Name: "e2e-closed", Net: "cilium", Flags: []string{"-nodes", "1", "-registered", "-no-tolerations"}})
	}, NodeTimeout(20*time.Minute))
	AfterEach(func(ctx SpecContext) { collectOnFailure(ctx, l) }, NodeTimeout(5*time.Minute))

	operator := func(ctx SpecContext) func() corev1.Pod {
		return func() corev1.Pod {
			pods, err := l.Kube.CoreV1().Pods(ciliums).List(ctx, metav1.ListOptions{LabelSelector: "name=cilium-operator"})
			Expect(err).NotTo(HaveOccurred())
			if len(pods.Items) == 0 {
				return corev1.Pod{}
			}
			return pods.Items[len(pods.Items)-1]
		}
	}

	It("C8: never start Cilium, whose operator does not tolerate our taint", func(ctx SpecContext) {
		Eventually(operator(ctx)).Should(HaveField("Status.Conditions", ContainElement(HaveField("Message", ContainSubstring("untolerated taint")))))
		Consistently(notReady, "20s").WithContext(ctx).WithArguments(l).Should(HaveLen(1))
		Expect(agents(ctx, l)).To(HaveEach(Not(Satisfy(ready))))
	}, SpecTimeout(25*time.Minute))

	It("C8: start it once operator.tolerations has the taint, and keep other pods waiting", func(ctx SpecContext) {
		Expect(l.Network(ctx, "cilium")).To(Succeed())
		Eventually(notReady).WithContext(ctx).WithArguments(l).Should(BeEmpty())
		Eventually(agents).WithContext(ctx).WithArguments(l).Should(And(HaveLen(1), HaveEach(Satisfy(ready))))
		dns, err := l.Kube.CoreV1().Pods(ciliums).List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
		Expect(err).NotTo(HaveOccurred())
		Expect(dns.Items).To(And(Not(BeEmpty()), HaveEach(HaveField("Status.Conditions", ContainElement(HaveField("Message",
			ContainSubstring("untolerated taint")))))), "CoreDNS waits for the node to open")
	}, SpecTimeout(5*time.Minute))
})
