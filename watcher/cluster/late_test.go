package cluster_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/configmap"
)

var _ = Describe("a Cilium that is not there yet", func() {
	It("C1: the namespace comes last", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		roles, err := plane.Kube.RbacV1().Roles(s.cilium).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		s.options.CiliumNamespace, s.cilium = s.cilium+"-late", s.cilium+"-late"

		s.watch(ctx)
		Eventually(s.ids(ctx)).Should(ContainElement(configmap.SourceUnreadable))

		Expect(plane.Namespace(ctx, s.cilium)).To(Succeed())
		for _, role := range roles.Items {
			_, err := plane.Kube.RbacV1().Roles(s.cilium).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Rules: role.Rules}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = plane.Kube.RbacV1().RoleBindings(s.cilium).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: s.release + "-watcher"}}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
		s.setCilium(ctx)
		Eventually(s.ids(ctx)).Should(Equal([]configmap.ID{}))
	})

	It("C1: an admin's watcher waits for the namespace itself", func(ctx SpecContext) {
		s := newSite(ctx, nil)
		s.options.CiliumNamespace, s.cilium = s.cilium+"-late", s.cilium+"-late"
		s.watchAs(plane.Config)
		Eventually(s.finding).WithContext(ctx).WithArguments(configmap.ConfigMapUnwritable).Should(HaveField("Message", ContainSubstring("not found")))
		Expect(plane.Namespace(ctx, s.cilium)).To(Succeed())
		Eventually(s.text).WithContext(ctx).Should(ContainSubstring("holdfast-cni"))
	})
})
