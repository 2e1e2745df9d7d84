//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/e2e/lab"
	"github.com/holdfast-cni/holdfast/helm"
)

const installer = "holdfast-install-cni"

var _ = describe("the generic path", Ordered, ContinueOnFailure, func() {
	var l *lab.Lab
	var nodes []*lab.Node
	var node *lab.Node // the one that specs harm
	var digest, file, network, primary string
	var list chaining.List

	BeforeAll(func(ctx SpecContext) {
		l = makeLab(ctx, lab.Options{Name: "e2e-generic", Net: "ptp", Flags: []string{"-nodes", "2"}})
		var err error
		nodes, err = l.Nodes(ctx)
		Expect(err).NotTo(HaveOccurred())
		node = nodes[1]
		digest, err = l.LoadProduct(ctx)
		Expect(err).NotTo(HaveOccurred())
		names, err := node.Shell(ctx, "ls "+lab.ConfDir)
		Expect(err).NotTo(HaveOccurred())
		file = strings.Fields(names)[0]
		primary, err = node.Read(ctx, path.Join(lab.ConfDir, file))
		Expect(err).NotTo(HaveOccurred())
		list, err = chaining.Parse([]byte(primary))
		Expect(err).NotTo(HaveOccurred())
		network = list.Name()
		install(ctx, l, nodes[0].Name, digest, generic(nil))
	}, NodeTimeout(30*time.Minute))
	AfterEach(func(ctx SpecContext) { collectOnFailure(ctx, l) }, NodeTimeout(5*time.Minute))

	open := func(ctx context.Context) {
		GinkgoHelper()
		register(ctx, l, nodes...)
		becomes(ctx, l, opened, nodes...)
	}
	resolve := func(ctx context.Context, resolver string) {
		GinkgoHelper()
		upgrade(ctx, l, nodes[0].Name, digest, generic(map[string]any{"plugin": map[string]any{"resolvers": []any{resolver}}}))
	}
	dropin := func() string { return path.Join(lab.ConfDir, network, "99-holdfast.conf") }

	It("N1: runs nothing on a node without the label", Label(smoke), func(ctx SpecContext) {
		Consistently(installers, "3s").WithContext(ctx).WithArguments(l).Should(BeEmpty())
	}, SpecTimeout(25*time.Minute)) // the cluster is made in it

	It("N2, N3, G1: chains behind ptp, proves it at the runtime, and opens", Label(smoke), func(ctx SpecContext) {
		began := time.Now()
		open(ctx)
		report("ptp: from the label to every node open: %s", time.Since(began).Round(100*time.Millisecond))
		for _, n := range nodes {
			types := loadedTypes(ctx, n)
			Expect(types[len(types)-1]).To(Equal("holdfast-cni"))
			Expect(types).To(HaveLen(len(list.Plugins()) + 1))
		}
		Expect(message(ctx, l, node)).To(ContainSubstring("proof runtime"))
		Expect(node.Read(ctx, path.Join(lab.ConfDir, file))).To(Equal(primary), "another's file is left as it is (G2)")
		startsPod(ctx, l, node, "through")
	}, SpecTimeout(4*time.Minute))

	It("N2: a changed plugin.json is chained and the node open again, with no restart", Label(smoke), func(ctx SpecContext) {
		open(ctx)
		began := time.Now()
		resolve(ctx, "10.96.0.77")
		for _, n := range nodes {
			Eventually(chained).WithContext(ctx).WithArguments(n).Should(ContainSubstring("10.96.0.77"))
		}
		report("ptp: helm upgrade with another resolver to the loaded chain of every node: %s", time.Since(began).Round(100*time.Millisecond))
		becomes(ctx, l, opened, nodes...)
	}, SpecTimeout(2*time.Minute))

	DescribeTable("N2, N3: repairs", Label(ci), func(ctx SpecContext, harm func(context.Context) error) {
		open(ctx)
		Expect(harm(ctx)).To(Succeed())
		Eventually(chained).WithContext(ctx).WithArguments(node).Should(And(HavePrefix("OK"), ContainSubstring("holdfast-cni")))
		Eventually(node.Read).WithContext(ctx).WithArguments(dropin()).Should(ContainSubstring("holdfast-cni"))
		becomes(ctx, l, opened, node)
		startsPod(ctx, l, node, "repaired")
	},
		Entry("a deleted drop-in", SpecTimeout(3*time.Minute), func(ctx context.Context) error { _, err := node.Run(ctx, "rm", dropin()); return err }),
		Entry("a deleted drop-in directory", SpecTimeout(3*time.Minute), func(ctx context.Context) error {
			_, err := node.Run(ctx, "rm", "-r", path.Dir(dropin()))
			return err
		}),
		Entry("a drop-in overwritten in place", SpecTimeout(3*time.Minute), func(ctx context.Context) error {
			return node.Overwrite(ctx, dropin(), []byte(`{"type":"holdfast-cni","resolvers":["6.6.6.6"]}`))
		}),
		Entry("a truncated drop-in", SpecTimeout(3*time.Minute), func(ctx context.Context) error {
			return node.Truncate(ctx, path.Join(network, "99-holdfast.conf"), 11)
		}),
		Entry("a deleted executable", SpecTimeout(3*time.Minute), func(ctx context.Context) error {
			_, err := node.Run(ctx, "rm", path.Join(lab.BinDir, "holdfast-cni"))
			return err
		}),
		Entry("another executable", SpecTimeout(3*time.Minute), func(ctx context.Context) error {
			return node.Write(ctx, path.Join(lab.BinDir, "holdfast-cni"), []byte("#!/bin/sh\nexit 0\n"), 0o755)
		}),
	)

	It("N2: stays last when a foreign plugin comes after ours", Label(ci), func(ctx SpecContext) {
		open(ctx)
		other := path.Join(lab.ConfDir, network, "99-other.conf")
		Expect(node.Write(ctx, other, []byte(`{"type":"tuning"}`), 0o644)).To(Succeed())
		Eventually(loadedTypes).WithContext(ctx).WithArguments(node).Should(And(ContainElement("tuning"), HaveExactElements(
			"ptp", "portmap", "tuning", "holdfast-cni")))
		becomes(ctx, l, opened, node)
		_, err := node.Shell(ctx, "rm "+other+"; touch /etc/cni/net.d/.e2e; rm /etc/cni/net.d/.e2e") // containerd watches no sub-directory
		Expect(err).NotTo(HaveOccurred())
		Eventually(loadedTypes).WithContext(ctx).WithArguments(node).Should(HaveExactElements("ptp", "portmap", "holdfast-cni"))
		becomes(ctx, l, opened, node)
	}, SpecTimeout(2*time.Minute))

	It("G3: follows a primary that is changed, replaced, gone and late, and the one of two that the runtime loads", Label(ci), func(ctx SpecContext) {
		open(ctx)
		put := func(name, text string) {
			Expect(node.Write(ctx, path.Join(lab.ConfDir, name), []byte(text), 0o644)).To(Succeed())
		}
		By("changing it")
		put(file, strings.Replace(primary, `"plugins"`, `"disableCheck": true, "plugins"`, 1))
		Consistently(state, "3s").WithContext(ctx).WithArguments(l, node).Should(Equal(opened))
		By("giving it another name")
		put(file, strings.ReplaceAll(primary, `"`+network+`"`, `"renamed"`))
		Eventually(node.Read).WithContext(ctx).WithArguments(path.Join(lab.ConfDir, "renamed/99-holdfast.conf")).Should(ContainSubstring("holdfast-cni"))
		becomes(ctx, l, opened, node)
		By("adding a second one that sorts first, in a .conf, as Multus does")
		put("00-multus.conf", `{"cniVersion":"0.3.1","name":"other","type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.250.0.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}`)
		Eventually(chained).WithContext(ctx).WithArguments(node).Should(MatchRegexp(`(?s)^OK .*10\.250\.0\.0.*holdfast-cni`))
		becomes(ctx, l, opened, node)
		startsPod(ctx, l, node, "conf")
		By("taking both away")
		_, err := node.Shell(ctx, "rm /etc/cni/net.d/00-multus.conf /etc/cni/net.d/"+file)
		Expect(err).NotTo(HaveOccurred())
		becomes(ctx, l, closed(chaining.NoNetworkList), node)
		Expect(node.Shell(ctx, "ls /etc/cni/net.d")).NotTo(ContainSubstring(".conflist"))
		By("bringing the first one back, late")
		put(file, primary)
		becomes(ctx, l, opened, node)
		startsPod(ctx, l, node, "late")
	}, SpecTimeout(6*time.Minute))

	It("G1, G3: chains behind a bridge that comes first, and behind ptp again when it goes", Label(ci), func(ctx SpecContext) {
		open(ctx)
		const bridge = `{"cniVersion":"1.0.0","name":"bridged","plugins":[{"type":"bridge","bridge":"e2e0","isGateway":true,` +
			`"ipam":{"type":"host-local","ranges":[[{"subnet":"10.251.0.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}`
		Expect(node.Write(ctx, path.Join(lab.ConfDir, "00-bridge.conflist"), []byte(bridge), 0o644)).To(Succeed())
		Eventually(loadedTypes).WithContext(ctx).WithArguments(node).Should(HaveExactElements("bridge", "holdfast-cni"))
		becomes(ctx, l, opened, node)
		startsPod(ctx, l, node, "bridged")
		_, err := node.Shell(ctx, "rm /etc/cni/net.d/00-bridge.conflist")
		Expect(err).NotTo(HaveOccurred())
		Eventually(loadedTypes).WithContext(ctx).WithArguments(node).Should(HaveExactElements("ptp", "portmap", "holdfast-cni"))
		becomes(ctx, l, opened, node)
		startsPod(ctx, l, node, "routed")
	}, SpecTimeout(3*time.Minute))

	DescribeTable("G5: closes on broken input with the reason and the fix, leaves no broken list, and opens again", Label(ci),
		func(ctx SpecContext, text string) {
			open(ctx)
			Expect(node.Overwrite(ctx, path.Join(lab.ConfDir, file), []byte(text))).To(Succeed())
			becomes(ctx, l, closed(chaining.ListInvalid), node)
			Expect(message(ctx, l, node)).To(ContainSubstring("Fix: "))
			Expect(node.Write(ctx, path.Join(lab.ConfDir, file), []byte(primary), 0o644)).To(Succeed())
			becomes(ctx, l, opened, node)
		},
		Entry("zero bytes", SpecTimeout(2*time.Minute), ""),
		Entry("truncated", SpecTimeout(2*time.Minute), `{"cniVersion":"1.0.0","name":"k`),
		Entry("an array", SpecTimeout(2*time.Minute), `[]`),
		Entry("a thousand plugins with one name twice", SpecTimeout(2*time.Minute), `{"cniVersion":"1.0.0","name":"p","name":"q","plugins":[`+strings.Repeat(`{"type":"ptp"},`, 999)+`{"type":"ptp"}]}`),
		Entry("a template", SpecTimeout(2*time.Minute), `{"cniVersion":"1.0.0","name":"p","plugins":[{"type":"ptp","mtu":"__CNI_MTU__","x":"{{ .Y }}"}]}`),
	)

	It("N4: sets a label back that is set by hand", Label(ci), func(ctx SpecContext) {
		open(ctx)
		label(ctx, l, `"false"`, node)
		becomes(ctx, l, opened, node)
	}, SpecTimeout(time.Minute))

	It("N2, N3: guards the disk while the API server is away for two minutes, and keeps what the Node says", Label(full), func(ctx SpecContext) {
		open(ctx)
		start, err := nodes[0].StopAPI(ctx)
		Expect(err).NotTo(HaveOccurred())
		away := time.Now()
		Eventually(func() error { _, err := l.Kube.Discovery().ServerVersion(); return err }).WithContext(ctx).ShouldNot(Succeed())
		_, err = node.Run(ctx, "rm", dropin())
		Expect(err).NotTo(HaveOccurred())
		Eventually(node.Read).WithContext(ctx).WithArguments(dropin()).Should(ContainSubstring("holdfast-cni"))
		Eventually(chained).WithContext(ctx).WithArguments(node).Should(ContainSubstring("holdfast-cni"))
		time.Sleep(time.Until(away.Add(2 * time.Minute)))
		Expect(start(ctx)).To(Succeed())
		Eventually(state).WithContext(ctx).WithArguments(l, node).Should(Equal(opened))
		Consistently(state, "5s").WithContext(ctx).WithArguments(l, node).Should(Equal(opened))
	}, SpecTimeout(8*time.Minute))

	It("N5: takes a node out when its label is removed, and back in", Label(ci), func(ctx SpecContext) {
		open(ctx)
		label(ctx, l, "null", node)
		becomes(ctx, l, "-", node)
		Expect(chained(ctx, node)).To(And(HavePrefix("OK"), Not(ContainSubstring("holdfast-cni"))))
		Expect(node.Shell(ctx, "find /etc/cni/net.d -name '*holdfast*'")).To(BeEmpty())
		Eventually(installers).WithContext(ctx).WithArguments(l).Should(HaveLen(len(nodes) - 1))
		Expect(node.Read(ctx, path.Join(lab.ConfDir, file))).To(Equal(primary))
		startsPod(ctx, l, node, "without")
		open(ctx)
	}, SpecTimeout(4*time.Minute))

	DescribeTable("N2, N3, I1: after a reboot the node opens and starts pods, in whatever order things start", func(ctx SpecContext, order []string) {
		open(ctx)
		reboot(ctx, l, node, file, order)
		becomes(ctx, l, opened, node)
		startsPod(ctx, l, node, "rebooted")
	}, reboots())

	It("N17: keeps another vendor's plugin chained, with an executable that is on the node", Label(ci), func(ctx SpecContext) {
		for _, vendor := range []string{"istio-cni", "made-up"} {
			for _, n := range nodes {
				content, err := n.Read(ctx, path.Join(lab.BinDir, "tuning"))
				Expect(err).NotTo(HaveOccurred())
				Expect(n.Write(ctx, path.Join(lab.BinDir, vendor), []byte(content), 0o755)).To(Succeed())
			}
			upgrade(ctx, l, nodes[0].Name, digest, generic(map[string]any{
				"plugin": map[string]any{"entry": map[string]any{"type": vendor, "log_level": "info", "sysctl": map[string]any{}}}}))
			register(ctx, l, nodes...)
			for _, n := range nodes {
				Eventually(chained).WithContext(ctx).WithArguments(n).Should(And(ContainSubstring(vendor), Not(ContainSubstring("holdfast-cni"))))
			}
			becomes(ctx, l, opened, nodes...)
			startsPod(ctx, l, node, vendor)
		}
		upgrade(ctx, l, nodes[0].Name, digest, generic(nil))
		open(ctx)
	}, SpecTimeout(8*time.Minute))

	It("G5: closes where the directory is read-only or full, and opens when it is not", Label(ci), func(ctx SpecContext) {
		open(ctx)
		for _, harm := range []func(context.Context) (func(context.Context) error, error){node.ReadOnlyConf, node.FillConf} {
			Expect(node.SmallConf(ctx)).To(Succeed())
			becomes(ctx, l, opened, node)
			undo, err := harm(ctx)
			Expect(err).NotTo(HaveOccurred())
			resolve(ctx, "10.96.1.10")
			Eventually(state).WithContext(ctx).WithArguments(l, node).Should(Equal(closed(chaining.EntryDiffers)))
			Expect(message(ctx, l, node)).To(MatchRegexp("read-only file system|no space left"))
			Expect(chained(ctx, node)).To(And(HavePrefix("OK"), ContainSubstring("holdfast-cni")), "the list that is there is whole")
			Expect(undo(ctx)).To(Succeed())
			becomes(ctx, l, opened, node)
			resolve(ctx, "10.96.0.10")
			becomes(ctx, l, opened, node)
		}
	}, SpecTimeout(6*time.Minute))

	It("N4, I2: uninstall with pods running leaves none stuck, and nothing of ours in the chain", Label(smoke), func(ctx SpecContext) {
		open(ctx)
		servePods(ctx, l, nodes, "stay")
		Expect(helm.Uninstall(ctx, l.Config, helm.ReleaseOptions{Release: "holdfast", Namespace: ours})).To(Succeed())
		for _, n := range nodes {
			Expect(state(ctx, l, n)).To(Equal("false"))
			Expect(chained(ctx, n)).To(And(HavePrefix("OK"), Not(ContainSubstring("holdfast-cni"))))
			Expect(n.Shell(ctx, "find /etc/cni/net.d -name '*holdfast*'")).To(BeEmpty())
		}
		Expect(l.Kube.CoreV1().Namespaces().Delete(ctx, "stay", metav1.DeleteOptions{})).To(Succeed())
		for _, n := range nodes {
			goes(ctx, l, "stay", "pod-"+n.Name)
		}
		startsPod(ctx, l, node, "afterwards")
	}, SpecTimeout(6*time.Minute))
})

// generic are the chart's values for a cluster without Cilium.
func generic(more map[string]any) map[string]any {
	values := map[string]any{"cilium": map[string]any{"enabled": false}}
	for key, value := range more {
		values[key] = value
	}
	return values
}

// What starts after a boot: the runtime, the kubelet, the network plugin's list, and install-cni.
var starters = []string{"containerd", "kubelet", "network", "install-cni"}

// reboots are all orders of them. One is run with every change: pods could start for as long as possible before install-cni does.
func reboots() []TableEntry {
	var entries []TableEntry
	for _, order := range permutations(starters) {
		name, when := strings.Join(order, " "), Label(full)
		if slices.Equal(order, []string{"network", "containerd", "kubelet", "install-cni"}) {
			when = Label(ci)
		}
		entries = append(entries, Entry(name, when, SpecTimeout(8*time.Minute), order))
	}
	return entries
}

func permutations(of []string) [][]string {
	if len(of) == 0 {
		return [][]string{nil}
	}
	var all [][]string
	for i, first := range of {
		rest := append(slices.Clone(of[:i]), of[i+1:]...)
		for _, order := range permutations(rest) {
			all = append(all, append([]string{first}, order...))
		}
	}
	return all
}

// reboot cuts the node's power and lets things start one after the other, each once the one before is up, as far as that
// can be without those that are held back.
func reboot(ctx context.Context, l *lab.Lab, node *lab.Node, file string, order []string) {
	GinkgoHelper()
	list := path.Join(lab.ConfDir, file)
	release := map[string]func(context.Context) error{}
	for _, unit := range []string{"containerd", "kubelet"} {
		free, err := node.Hold(ctx, unit)
		Expect(err).NotTo(HaveOccurred())
		release[unit] = free
	}
	free, err := l.HoldPods(ctx, ours, installer)
	Expect(err).NotTo(HaveOccurred())
	release["install-cni"] = free
	_, err = node.Run(ctx, "mv", list, "/etc/cni/held")
	Expect(err).NotTo(HaveOccurred())
	release["network"] = func(ctx context.Context) error {
		_, err := node.Shell(ctx, fmt.Sprintf("cp /etc/cni/held %[1]s/.held && mv %[1]s/.held %[2]s && rm /etc/cni/held", lab.ConfDir, list))
		return err
	}
	Expect(node.Stop(ctx)).To(Succeed())
	Expect(node.Start(ctx)).To(Succeed())
	Eventually(node.Run).WithContext(ctx).WithArguments("systemctl", "is-system-running").Should(Or(HavePrefix("running"), HavePrefix("degraded")))
	for _, what := range order {
		Expect(release[what](ctx)).To(Succeed())
		time.Sleep(3 * time.Second) // so that what is first has begun
	}
}
