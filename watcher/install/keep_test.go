package install_test

import (
	encoding "encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-cni/holdfast/chaining"
)

const dropin = "pods/99-holdfast.conf"

var _ = Describe("keeping", func() {
	It("chains behind the cluster's own, installs the executable first, and opens the node on proof (N2, N3)", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		Expect(m.files()).To(ConsistOf(primary, dropin))
		Expect(filepath.Join(m.bin, "holdfast-cni")).To(BeARegularFile())
		Expect(m.message(ctx)).To(ContainSubstring("strategy drop-in, proof runtime"))
		Expect(m.node(ctx).Spec.Taints).To(ContainElement(HaveField("Key", "example.com/other")))
	})

	It("repairs what others remove or change, and what plugin.json becomes (N2)", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		m.remove(dropin)
		Eventually(m.files).Should(ConsistOf(primary, dropin))
		m.write(dropin, `{"type":"holdfast-cni","resolvers":["6.6.6.6"]}`)
		Eventually(func() string { data, _ := os.ReadFile(filepath.Join(m.conf, dropin)); return string(data) }).Should(ContainSubstring("10.96.0.10"))
		m.write(dropin, `{"type":`)
		Eventually(func() string { data, _ := os.ReadFile(filepath.Join(m.conf, dropin)); return string(data) }).Should(ContainSubstring("10.96.0.10"))
		m.patchConfig(ctx, `{"plugin.json":"{\"type\":\"holdfast-cni\",\"resolvers\":[\"10.96.0.99\"]}"}`)
		Eventually(func() string { data, _ := os.ReadFile(filepath.Join(m.conf, dropin)); return string(data) }).Should(ContainSubstring("10.96.0.99"))
		Expect(os.Remove(filepath.Join(m.bin, "holdfast-cni"))).To(Succeed())
		Eventually(filepath.Join(m.bin, "holdfast-cni")).Should(BeARegularFile())
		other := filepath.Join(m.root, "other")
		Expect(os.WriteFile(other, []byte("#!/bin/sh\n"), 0o755)).To(Succeed())
		Expect(os.Rename(other, filepath.Join(m.bin, "holdfast-cni"))).To(Succeed())
		Eventually(func() int64 { i, _ := os.Stat(filepath.Join(m.bin, "holdfast-cni")); return i.Size() }).Should(BeNumerically(">", 1000))
		m.becomes(ctx, opened)
	})

	It("follows a primary that is late, changed, replaced, and gone (G3)", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.remove(primary)
		m.start()
		m.becomes(ctx, closed(chaining.NoNetworkList))
		m.write(primary, pods)
		m.becomes(ctx, opened)
		m.write(primary, strings.ReplaceAll(pods, "1450", "9000"))
		Consistently(func() string { return m.state(ctx) }, "1s").Should(Equal(opened))
		m.write("00-multus.conf", `{"cniVersion":"0.3.1","name":"multus","type":"multus"}`)
		Eventually(m.files).Should(ContainElement("00-multus-holdfast.conflist"))
		m.becomes(ctx, opened)
		Expect(m.files()).NotTo(ContainElement(dropin))
		m.remove("00-multus.conf")
		Eventually(m.files).Should(ConsistOf(primary, dropin))
		m.becomes(ctx, opened)
	})

	It("sets a label back that somebody sets by hand, and keeps taint and condition with it (N4)", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		patch := func(text string) {
			_, err := plane.Kube.CoreV1().Nodes().Patch(ctx, m.name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		patch(`{"metadata":{"labels":{"holdfast.dev/node":"false"}}}`)
		m.becomes(ctx, opened)
		m.runtime.set(func() { m.runtime.missed = true })
		m.write(primary, strings.ReplaceAll(pods, `"pods"`, `"renamed"`))
		Consistently(func() string { return m.state(ctx) }, "300ms").Should(Equal(opened), "what the runtime has loaded is still chained")
		m.runtime.set(func() { m.runtime.last = `{"Networks":[]}` })
		m.write(".touch", "")
		m.remove(".touch")
		m.becomes(ctx, closed(chaining.RuntimeNotLoaded))
		patch(`{"metadata":{"labels":{"holdfast.dev/node":"true"}},"spec":{"taints":null}}`)
		m.becomes(ctx, closed(chaining.RuntimeNotLoaded))
		m.runtime.set(func() { m.runtime.missed = false })
		m.becomes(ctx, opened)
	})

	DescribeTable("closes, names the reason and the fix, and leaves no broken list (G5)",
		func(ctx SpecContext, name, text string, reason chaining.Reason) {
			m := newMachine(ctx)
			m.start()
			m.becomes(ctx, opened)
			m.write(name, text)
			m.becomes(ctx, closed(reason))
			Expect(m.message(ctx)).To(ContainSubstring("Fix: "))
			m.write(name, pods)
			m.becomes(ctx, opened)
		},
		Entry("zero bytes", primary, "", chaining.ListInvalid),
		Entry("truncated", primary, pods[:40], chaining.ListInvalid),
		Entry("an array", primary, "[]", chaining.ListInvalid),
		Entry("no plugins", primary, `{"cniVersion":"1.0.0","name":"pods","plugins":[]}`, chaining.ListInvalid),
		Entry("a template", primary, `{"cniVersion":"1.0.0","name":"{{ .Name }}","plugins":[{"type":"bridge"}]}`, chaining.ListInvalid),
		Entry("a type with a path", primary, `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"../bridge"}]}`, chaining.ListInvalid),
	)

	It("closes while plugin.json is broken, and leaves the chain that is there (G5)", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		m.patchConfig(ctx, `{"plugin.json":"{"}`)
		m.becomes(ctx, closed(chaining.PluginConfigInvalid))
		Expect(m.files()).To(ConsistOf(primary, dropin))
	})

	It("is closed while the runtime hangs, talks nonsense, or is away, and open when it is back", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		m.runtime.set(func() { m.runtime.answer = func() string { return `{"Networks":"none"}` } })
		m.write(".touch", "")
		m.becomes(ctx, closed(chaining.RuntimeNotLoaded))
		m.runtime.set(func() { m.runtime.answer = nil })
		m.becomes(ctx, opened)
		m.runtime.set(func() { m.runtime.hangs = true })
		m.write(".touch", "again")
		m.becomes(ctx, closed(chaining.RuntimeNotLoaded))
		Expect(m.message(ctx)).To(ContainSubstring("no answer in time"))
		m.runtime.set(func() { m.runtime.hangs = false })
		m.becomes(ctx, opened)
	})

	It("judges by files where the runtime does not tell what it loaded, as CRI-O", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.runtime.set(func() { m.runtime.name, m.runtime.version = "cri-o", "1.36.0" })
		m.write(primary, strings.ReplaceAll(pods, `"portmap"`, `"tuning"`))
		for _, name := range []string{"bridge", "tuning"} { // CRI-O passes over a list whose executables are missing
			Expect(os.WriteFile(filepath.Join(m.bin, name), nil, 0o755)).To(Succeed())
		}
		m.start()
		m.becomes(ctx, opened)
		Expect(m.message(ctx)).To(ContainSubstring("proof file"))
	})

	It("is refused after three removals, tries once a minute, and opens once the list has it anyway (C7)", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.options.Strategy = chaining.ByList
		own := filepath.Join(m.conf, "10-pods-holdfast.conflist")
		stop := make(chan struct{})
		DeferCleanup(func() { close(stop) })
		go func() { // what Cilium does
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
					_ = os.Rename(own, own+".cilium_bak")
				}
			}
		}()
		m.start()
		m.becomes(ctx, closed(chaining.StrategyRefused))
		Expect(m.message(ctx)).To(ContainSubstring("cni.configMap"))
		m.write(primary, strings.Replace(pods, `}]}`, `},`+entry+`]}`, 1))
		m.becomes(ctx, opened)
	})

	It("makes the runtime look again where it missed a list (containerd#11715)", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.runtime.set(func() { m.runtime.missed = true })
		m.start()
		m.becomes(ctx, closed(chaining.RuntimeNotLoaded))
		Expect(m.message(ctx)).To(ContainSubstring("Fix: "))
	})

	It("is closed by a hostile neighbour, writes little to the API server meanwhile, and opens within seconds of the end (N3)", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		before := resourceVersion(m.node(ctx))
		until := time.Now().Add(6 * time.Second)
		for i := 0; time.Now().Before(until); i++ {
			m.write(dropin, fmt.Sprintf(`{"type":"holdfast-cni","resolvers":["6.6.6.%d"]}`, i%250))
			time.Sleep(10 * time.Millisecond)
		}
		Expect(m.state(ctx)).To(HavePrefix("false tainted"))
		Expect(resourceVersion(m.node(ctx))-before).To(BeNumerically("<", 40), "versions of the whole API server")
		m.becomes(ctx, opened)
	})

	It("writes nothing to the API server on a quiet node", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		time.Sleep(time.Second)
		before := m.node(ctx).ResourceVersion
		Consistently(func() string { return m.node(ctx).ResourceVersion }, "3s", "500ms").Should(Equal(before))
	})
})

var _ = Describe("another vendor's plugin (N17)", func() {
	It("is chained, proved and taken out in the same way, with an executable that is already there", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.options.Binary = ""
		m.patchConfig(ctx, `{"plugin.json":"{\"type\":\"vendor-cni\",\"mode\":\"strict\"}"}`)
		m.start()
		m.becomes(ctx, closed(chaining.BinaryMissing))
		Expect(m.files()).To(ConsistOf(primary), "no entry before its executable")
		data, err := os.ReadFile(executable)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(m.bin, "vendor-cni"), data, 0o755)).To(Succeed())
		m.becomes(ctx, opened)
		m.unregister(ctx)
		m.becomes(ctx, "-")
		Expect(m.files()).To(ConsistOf(primary))
		Expect(filepath.Join(m.bin, "vendor-cni")).To(BeARegularFile(), "it is not ours to remove")
	})
})

var _ = Describe("leaving", func() {
	It("takes everything out when the label is removed, and comes back with it (N4, N5)", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		m.unregister(ctx)
		m.becomes(ctx, "-")
		Expect(m.files()).To(ConsistOf(primary))
		Expect(filepath.Join(m.bin, "holdfast-cni")).NotTo(BeAnExistingFile())
		Expect(m.node(ctx).Spec.Taints).To(ContainElement(HaveField("Key", "example.com/other")))
		_, err := plane.Kube.CoreV1().Nodes().Patch(ctx, m.name, types.MergePatchType, []byte(`{"metadata":{"labels":{"holdfast.dev/node":""}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		m.becomes(ctx, opened)
	})

	It("leaves the executable where a running pod was started with it", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		list := strings.Replace(pods, `}]}`, `},`+entry+`]}`, 1)
		cache := `{"kind":"cniCacheV1","containerId":"c","config":"` + base64(list) + `","ifName":"eth0","networkName":"pods"}`
		Expect(os.WriteFile(filepath.Join(m.root, "var/lib/cni/results/pods-c-eth0"), []byte(cache), 0o600)).To(Succeed())
		m.patchConfig(ctx, `{"leaving":"true","state":null}`)
		m.becomes(ctx, "false")
		Expect(m.files()).To(ConsistOf(primary))
		Expect(filepath.Join(m.bin, "holdfast-cni")).To(BeARegularFile())
	})

	It("waits while the runtime has a list loaded that names the plugin", func(ctx SpecContext) {
		m := newMachine(ctx)
		m.start()
		m.becomes(ctx, opened)
		m.runtime.set(func() { m.runtime.missed = true })
		m.unregister(ctx)
		Eventually(m.files).Should(ConsistOf(primary))
		Consistently(func() string { return m.state(ctx) }, "1s").Should(HavePrefix("- tainted installed"))
		Expect(filepath.Join(m.bin, "holdfast-cni")).To(BeARegularFile())
		m.runtime.set(func() { m.runtime.missed = false })
		m.becomes(ctx, "-")
	})

	It("undoes nothing when it ends", func(ctx SpecContext) {
		m := newMachine(ctx)
		stop := m.start()
		m.becomes(ctx, opened)
		stop()
		Consistently(func() string { return m.state(ctx) }, "500ms").Should(Equal(opened))
		Expect(m.files()).To(ConsistOf(primary, dropin))
	})
})

func (m *machine) unregister(ctx SpecContext) {
	GinkgoHelper()
	_, err := plane.Kube.CoreV1().Nodes().Patch(ctx, m.name, types.MergePatchType, []byte(`{"metadata":{"labels":{"holdfast.dev/node":null}}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func resourceVersion(node *corev1.Node) int {
	GinkgoHelper()
	version, err := strconv.Atoi(node.ResourceVersion)
	Expect(err).NotTo(HaveOccurred())
	return version
}

func base64(text string) string { return encoding.StdEncoding.EncodeToString([]byte(text)) }
