//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/e2e/lab"
)

// kills starts governed and other pods, one of each every few seconds, while processes of their node are killed.
func (g *governedPods) kills(ctx SpecContext, kills int) {
	becomes(ctx, g.l, opened, g.node)
	g.nothingOut(ctx)
	killing, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan map[string]int, 1)
	go func() {
		defer GinkgoRecover()
		done <- g.kill(killing, kills)
	}()
	var killed map[string]int
	pods, locked := 0, 0
	for ; killed == nil; pods++ {
		for _, name := range killedPods(pods) {
			pod := servePod(name, g.node.Name, nil)
			if namespaceOf(name) == governed {
				pod = governedPod(name, g.node.Name, g.sidecar)
			}
			_, err := g.l.Kube.CoreV1().Pods(namespaceOf(name)).Create(ctx, pod, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		select {
		case killed = <-done:
		case <-time.After(4 * time.Second):
		}
		if pods >= 3 {
			if podReady(ctx, g.l, governed, killedPods(pods - 3)[0]) {
				locked++
			}
			for _, name := range killedPods(pods - 3) {
				Expect(g.l.Kube.CoreV1().Pods(namespaceOf(name)).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			}
		}
	}
	for i := max(0, pods-3); i < pods; i++ { // those before were deleted
		for _, name := range killedPods(i) {
			Eventually(podReady).WithContext(ctx).WithArguments(g.l, namespaceOf(name), name).Should(BeTrue(), "pod %s is never stuck", name)
			Expect(g.l.Kube.CoreV1().Pods(namespaceOf(name)).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
	}
	for i := range pods {
		for _, name := range killedPods(i) {
			goes(ctx, g.l, namespaceOf(name), name)
		}
	}
	g.nothingOut(ctx)
	report("on %s: %d kills at random instants %v, %d governed pods, of which %d Ready within 12 s, and as many others started meanwhile: no packet of a governed pod's flood, no stuck pod",
		g.on.text, kills, killed, pods, locked)
}

// kill kills so many processes at random instants, and returns how many of each. What was not there just then does not count.
func (g *governedPods) kill(ctx context.Context, kills int) map[string]int {
	killed := map[string]int{}
	for range kills {
		for success := false; !success && ctx.Err() == nil; {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(200+rand.IntN(1800)) * time.Millisecond):
			}
			victim := []string{"holdfast-cni", "holdfast-cni", "agent", "containerd", "kubelet"}[rand.IntN(5)]
			script := "pkill -KILL -x " + victim
			switch victim {
			case "agent":
				script = `pkill -KILL -f "^/holdfast agent"`
			case "holdfast-cni": // lives for milliseconds
				script = lab.Probe + " kill /opt/cni/bin/holdfast-cni"
			}
			if _, err := g.node.Shell(ctx, script); err == nil {
				killed[victim]++
				success = true
			}
		}
	}
	return killed
}

// killedPods are the names of a governed pod and of another.
func killedPods(i int) []string { return []string{fmt.Sprint("kill-g-", i), fmt.Sprint("kill-u-", i)} }

func namespaceOf(name string) string {
	if strings.HasPrefix(name, "kill-g") {
		return governed
	}
	return "default"
}
