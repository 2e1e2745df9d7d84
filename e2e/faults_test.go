//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/e2e/lab"
)

// The faults that later specs rely on: each does what it says, and is undone.
var _ = describe("faults", Ordered, Label(full), func() {
	var l *lab.Lab
	var node *lab.Node
	BeforeAll(func(ctx SpecContext) {
		l = makeLab(ctx, lab.Options{Name: "e2e-faults", Net: "ptp", Flags: []string{"-nodes", "2"}})
		nodes, err := l.Nodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		node = nodes[1]
	}, NodeTimeout(20*time.Minute))
	AfterEach(func(ctx SpecContext) { collectOnFailure(ctx, l) }, NodeTimeout(5*time.Minute))

	touch := func(ctx context.Context) error {
		_, err := node.Shell(ctx, `head -c 8192 /dev/zero > /etc/cni/net.d/.e2e; rm /etc/cni/net.d/.e2e`)
		return err
	}
	status := func(ctx context.Context) string {
		_, said, err := node.Loaded(ctx)
		return fmt.Sprint(said, err)
	}

	// A pod that has the directory mounted, as an agent's has, must meet the faults too.
	inPod := func(ctx context.Context) error {
		_, err := node.Shell(ctx, `pid=$(crictl inspect --output go-template --template '{{.info.pid}}' $(crictl ps --quiet --name conf))
head -c 8192 /dev/zero > /proc/$pid/root/conf/.e2e; rm /proc/$pid/root/conf/.e2e`)
		return err
	}

	It("fill the CNI directory, for the node and for a pod", func(ctx SpecContext) {
		Expect(node.SmallConf(ctx)).To(Succeed())
		pod := servePod("conf", node.Name, nil)
		pod.Spec.Containers[0].Name = "conf"
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "conf", MountPath: "/conf"}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: lab.ConfDir}}}}
		Eventually(func() error {
			_, err := l.Kube.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
			return err
		}).WithContext(ctx).Should(Succeed())
		Eventually(podReady).WithContext(ctx).WithArguments(l, "default", "conf").Should(BeTrue())
		Expect(inPod(ctx)).To(Succeed())
		undo, err := node.FillConf(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(touch(ctx)).To(MatchError(ContainSubstring("No space left")))
		Expect(inPod(ctx)).To(MatchError(ContainSubstring("No space left")))
		Expect(undo(ctx)).To(Succeed())
		Expect(touch(ctx)).To(Succeed())
		Expect(inPod(ctx)).To(Succeed())
	}, SpecTimeout(25*time.Minute))

	It("make the CNI directory read-only, for the node and for a pod", func(ctx SpecContext) {
		undo, err := node.ReadOnlyConf(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(touch(ctx)).To(MatchError(ContainSubstring("Read-only file system")))
		Expect(inPod(ctx)).To(MatchError(ContainSubstring("Read-only file system")))
		Expect(undo(ctx)).To(Succeed())
		Expect(touch(ctx)).To(Succeed())
	}, SpecTimeout(time.Minute))

	It("restart a unit, and hold a DaemonSet's pods back until they may start", func(ctx SpecContext) {
		Expect(node.Restart(ctx, "containerd")).To(Succeed())
		proxies := func() (int, error) {
			pods, err := l.Kube.CoreV1().Pods(ciliums).List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-proxy"})
			if err != nil {
				return 0, err
			}
			return len(pods.Items), nil
		}
		Eventually(proxies).WithContext(ctx).Should(Equal(2))
		release, err := l.HoldPods(ctx, ciliums, "kube-proxy")
		Expect(err).NotTo(HaveOccurred())
		Eventually(proxies).WithContext(ctx).Should(BeZero())
		Expect(release(ctx)).To(Succeed())
		Eventually(proxies).WithContext(ctx).Should(Equal(2))
	}, SpecTimeout(4*time.Minute))

	It("cut a node off from the API server", func(ctx SpecContext) {
		ask := func() error {
			_, err := node.Run(ctx, "curl", "--silent", "--insecure", "--max-time", "3", "https://"+l.Name+"-control-plane:6443/readyz")
			return err
		}
		Expect(ask()).To(Succeed())
		undo, err := node.CutAPI(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(ask()).NotTo(Succeed())
		Expect(undo(ctx)).To(Succeed())
		Expect(ask()).To(Succeed())
	}, SpecTimeout(2*time.Minute))

	It("rename, truncate and rewrite files as another vendor would", func(ctx SpecContext) {
		files, err := node.Shell(ctx, "ls "+lab.ConfDir)
		Expect(err).NotTo(HaveOccurred())
		file := strings.Fields(files)[0]
		content, err := node.Read(ctx, path.Join(lab.ConfDir, file))
		Expect(err).NotTo(HaveOccurred())

		Expect(node.Rename(ctx, file, file+".bak")).To(Succeed())
		Eventually(status).WithContext(ctx).Should(ContainSubstring("no network config found"))
		Expect(node.Rename(ctx, file+".bak", file)).To(Succeed())
		Expect(node.Truncate(ctx, file, 20)).To(Succeed())
		Eventually(status).WithContext(ctx).ShouldNot(HavePrefix("OK"))
		Expect(node.Overwrite(ctx, path.Join(lab.ConfDir, file), []byte(content))).To(Succeed())
		Eventually(status).WithContext(ctx).Should(HavePrefix("OK"))
		Eventually(notReady).WithContext(ctx).WithArguments(l).Should(BeEmpty())
	}, SpecTimeout(4*time.Minute))

	It("stop and start the API server", func(ctx SpecContext) {
		nodes, err := l.Nodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		alive := func() error { _, err := l.Kube.Discovery().ServerVersion(); return err }
		start, err := nodes[0].StopAPI(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(alive).WithContext(ctx).ShouldNot(Succeed())
		Expect(start(ctx)).To(Succeed())
		Eventually(alive).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(5*time.Minute))

	It("reboot a node with /run lost, and the kubelet held back", func(ctx SpecContext) {
		_, err := node.Run(ctx, "touch", "/run/e2e")
		Expect(err).NotTo(HaveOccurred())
		release, err := node.Hold(ctx, "kubelet")
		Expect(err).NotTo(HaveOccurred())
		Expect(node.Stop(ctx)).To(Succeed())
		Expect(node.Start(ctx)).To(Succeed())
		Eventually(func() error { _, err := node.Run(ctx, "crictl", "info"); return err }).WithContext(ctx).Should(Succeed())
		_, err = node.Run(ctx, "test", "!", "-e", "/run/e2e")
		Expect(err).NotTo(HaveOccurred(), "/run is not lost")
		_, err = node.Run(ctx, "pgrep", "-x", "kubelet")
		Expect(err).To(HaveOccurred(), "the kubelet is not held back")
		Expect(release(ctx)).To(Succeed())
		Eventually(notReady).WithContext(ctx).WithArguments(l).Should(BeEmpty())
	}, SpecTimeout(6*time.Minute))
})
