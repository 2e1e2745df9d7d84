//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/configmap"
	"github.com/holdfast-cni/holdfast/e2e/lab"
	"github.com/holdfast-cni/holdfast/watcher"
)

// lockedOn is a cluster whose governed pods the specs of the lock are about.
type lockedOn struct {
	text  string // for people
	net   string
	flags []string
	// socketLB is where Cilium's agents say that they rewrite service addresses; empty where there is no Cilium.
	socketLB string
	often    bool // some of the specs run with every change
}

var lockedNetworks = []lockedOn{
	{text: "ptp", net: "ptp", often: true},
	{text: "Cilium, with socket LB on the host alone", net: "cilium", socketLB: "Hostns-only"},
	{text: "Cilium, with socket LB in pods too", net: "cilium", flags: []string{"-set", "socketLB.hostNamespaceOnly=false"}, socketLB: "Full"},
	{text: "Cilium, without socket LB", net: "cilium-kubeproxy", socketLB: "Disabled"},
}

func (on lockedOn) cilium() bool { return on.socketLB != "" }

// when is the label of a spec that has this one where it is run often.
func (on lockedOn) when(label string) Labels {
	if !on.often {
		label = full
	}
	return Label(label)
}

// make makes the cluster.
func (on lockedOn) make(ctx context.Context) *lab.Lab {
	GinkgoHelper()
	flags := append([]string{"-nodes", "2"}, on.flags...)
	if on.cilium() {
		flags = append(flags, "-configmap", "none", "-registered")
	}
	return makeLab(ctx, lab.Options{Name: "e2e-lock-" + on.net, Net: on.net, Flags: flags})
}

// chart are the chart's values for it.
func (on lockedOn) chart(more map[string]any) map[string]any {
	if !on.cilium() {
		return generic(more)
	}
	values := map[string]any{"cilium": map[string]any{"kubeProxyReplacement": on.net == "cilium"}}
	for key, value := range more {
		values[key] = value
	}
	return values
}

// opens waits until every node is open, and Cilium does what it is to do.
func (on lockedOn) opens(ctx context.Context, l *lab.Lab, nodes []*lab.Node) {
	GinkgoHelper()
	if on.cilium() {
		Eventually(agents).WithContext(ctx).WithArguments(l).Should(And(HaveLen(len(nodes)), HaveEach(Satisfy(ready))))
		Eventually(socketLB).WithContext(ctx).WithArguments(l).Should(Equal(on.socketLB))
	} else {
		register(ctx, l, nodes...)
	}
	becomes(ctx, l, opened, nodes...)
	Eventually(agentsReady).WithContext(ctx).WithArguments(l).Should(Equal(len(nodes)))
}

// unchain takes the plugin out of what a node's runtime has loaded, behind our back; the returned function lets us put it in again.
func (on lockedOn) unchain(ctx context.Context, l *lab.Lab, node *lab.Node) (undo func(context.Context) error) {
	GinkgoHelper()
	undo, err := l.HoldPods(ctx, ours, installer)
	Expect(err).NotTo(HaveOccurred())
	Eventually(installers).WithContext(ctx).WithArguments(l).Should(BeEmpty())
	if on.cilium() {
		free, rewatch := undo, ciliumAlone(ctx, l)
		undo = func(ctx context.Context) error { rewatch(ctx); return free(ctx) }
	} else {
		_, err := node.Shell(ctx, "rm -r /etc/cni/net.d/ptp")
		Expect(err).NotTo(HaveOccurred())
	}
	Eventually(func() string {
		// A file event has containerd load its list, and Cilium's agent write it, once the kubelet has synced the volume.
		_, err := node.Shell(ctx, "touch /etc/cni/net.d/.e2e; rm /etc/cni/net.d/.e2e")
		Expect(err).NotTo(HaveOccurred())
		return chained(ctx, node)
	}).WithContext(ctx).WithPolling(time.Second).Should(And(HavePrefix("OK"), Not(ContainSubstring("holdfast-cni"))))
	return undo
}

// ciliumAlone has Cilium's list name no plugin of ours, as somebody may who writes that ConfigMap while the watcher is away.
func ciliumAlone(ctx context.Context, l *lab.Lab) (undo func(context.Context)) {
	GinkgoHelper()
	scale := func(ctx context.Context, replicas int) {
		GinkgoHelper()
		_, err := l.Kube.AppsV1().Deployments(ours).Patch(ctx, "holdfast-watcher", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	scale(ctx, 0)
	Eventually(watchersOf).WithContext(ctx).WithArguments(l).Should(BeEmpty())
	cm, err := l.Kube.CoreV1().ConfigMaps(ciliums).Get(ctx, configmap.DefaultConfigMap, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	all, err := chaining.Parse([]byte(cm.Data[configmap.DefaultKey]))
	Expect(err).NotTo(HaveOccurred())
	alone, err := all.Remove(len(all.Plugins()) - 1)
	Expect(err).NotTo(HaveOccurred())
	cm.Data[configmap.DefaultKey] = string(alone.Bytes())
	_, err = l.Kube.CoreV1().ConfigMaps(ciliums).Update(ctx, cm, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	pods, err := agents(ctx, l)
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range pods { // its change has the kubelet sync the volume at once
		_, err := l.Kube.CoreV1().Pods(ciliums).Patch(ctx, pod.Name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"e2e"}}}`, watcher.SyncAnnotation), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	return func(ctx context.Context) { scale(ctx, 1) }
}
