package agent_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/agent"
	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/watcher"
)

// What an agent that starts knows from the one before it.

// lose makes of the release's ConfigMap one that can't be gone by.
var lose = map[string]func(ctx context.Context, m *machine){
	"invalid": func(ctx context.Context, m *machine) {
		cm, err := plane.Kube.CoreV1().ConfigMaps(m.own).Get(ctx, watcher.ConfigName("hf"), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		cm.Data[watcher.PluginKey] = "{"
		_, err = plane.Kube.CoreV1().ConfigMaps(m.own).Update(ctx, cm, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	},
	"missing": func(ctx context.Context, m *machine) {
		Expect(plane.Kube.CoreV1().ConfigMaps(m.own).Delete(ctx, watcher.ConfigName("hf"), metav1.DeleteOptions{})).To(Succeed())
	},
}

var _ = Describe("an agent that starts", func() {
	m := newRunning()

	for how, loseIt := range lose {
		It("N8 N14 N18 I1 goes by what this node remembers where plugin.json is "+how, func(ctx SpecContext) {
			asked, cut, _ := m.adopted(ctx, "asked")
			debugged, broken, _ := m.adopted(ctx, "debugged")
			_, ended, _ := m.adopted(ctx, "ended")
			_, kept, _ := m.adopted(ctx, "kept")
			m.stop()
			loseIt(ctx, m.machine)
			m.start()
			By("refusing what is new, and saying that it isn't ready")
			pod := m.create(ctx, m.goodPod("new"))
			fresh := m.request(pod, string(pod.UID), m.sandbox())
			Eventually(m.code(ctx, fresh)).Should(Equal("Starting"))
			Expect(refusal(m.ask(ctx, fresh)).Retry).To(BeTrue())
			By("cutting off what is asked for, breaks its contract, or got past the chain")
			said, err := m.cut(ctx, asked, "now")
			Expect(err).NotTo(HaveOccurred())
			Expect(said).To(Equal("Requested: now"))
			Expect(cut.cut()).To(Equal(said))
			m.debug(ctx, debugged)
			Eventually(broken.cut).WithTimeout(5 * time.Second).Should(HavePrefix("ContractBroken: "))
			raced := m.unlocked(m.create(ctx, m.goodPod("raced")))
			free := m.goodPod("")
			free.Namespace, free.GenerateName = "default", "free-"
			ungoverned := m.unlocked(m.create(ctx, free))
			Eventually(raced.cut).WithTimeout(5 * time.Second).Should(HavePrefix("PastChain"))
			By("letting go of what ended")
			m.runtime.remove(ended.id)
			Expect(m.states.Remove(ended.id)).To(Succeed())
			Eventually(ended.netns.Remaining).Should(BeNumerically("<", lock.Lease-2*lock.RenewEvery), "nobody renews it")
			By("harming nothing else")
			Expect(kept.cut()).To(BeEmpty())
			Expect(kept.netns.Remaining()).To(BeNumerically(">", lock.Lease-10*time.Second))
			Expect(ungoverned.cut()).To(BeEmpty(), "I2")
			Expect(m.ready()).NotTo(Succeed())
			By("once it can")
			m.configure(ctx, m.governed)
			m.started()
			Expect(m.ask(ctx, fresh)).To(Succeed())
		})
	}

	It("N8 I1 judges by what no policy allows where plugin.json is invalid and none is remembered, and by the policy once it knows it", func(ctx SpecContext) {
		debugged, broken, _ := m.adopted(ctx, "debugged")
		changed, other, _ := m.adopted(ctx, "changed")
		_, kept, _ := m.adopted(ctx, "kept")
		m.stop()
		Expect(os.Remove(filepath.Join(m.folder, "run/policies.json"))).To(Succeed())
		lose["invalid"](ctx, m.machine)
		m.start()
		m.debug(ctx, debugged)
		Eventually(func() error {
			now, err := plane.Kube.CoreV1().Pods(m.governed).Get(ctx, changed.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			now.Spec.InitContainers[0].Image = "holdfast@" + strings.Replace(image, "0123", "3210", 1)
			_, err = plane.Kube.CoreV1().Pods(m.governed).Update(ctx, now, metav1.UpdateOptions{})
			return err
		}).Should(Succeed())
		Eventually(broken.cut).WithTimeout(5 * time.Second).Should(HavePrefix("ContractBroken: "))
		Consistently(func() string { return other.cut() + kept.cut() }).WithTimeout(2 * time.Second).Should(BeEmpty())
		m.configure(ctx, m.governed)
		Eventually(other.cut).WithTimeout(5 * time.Second).Should(HavePrefix("ContractBroken: "))
		m.started()
		Expect(kept.cut()).To(BeEmpty())
	})

	It("N19 I1 cuts off no pod because what was allowed when it was adopted can't be read", func(ctx SpecContext) {
		_, s, _ := m.adopted(ctx, "older")
		debugged, broken, _ := m.adopted(ctx, "debugged")
		m.stop()
		Expect(os.WriteFile(filepath.Join(m.folder, "run/policies.json"), []byte(`{"Images":["sha`), 0o600)).To(Succeed())
		m.configureImages(ctx, strings.Replace(image, "0123", "3210", 1), m.governed)
		told := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(told)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		stop := m.start()
		m.started()
		Expect(told).To(gbytes.Say("what pods were allowed is forgotten"))
		m.debug(ctx, debugged)
		Eventually(broken.cut).Should(HavePrefix("ContractBroken: "))
		Expect(s.cut()).To(BeEmpty())
		By("the next agent, which can read what this one wrote")
		stop()
		m.start()
		m.started()
		Consistently(s.cut).WithTimeout(time.Second).Should(BeEmpty())
	})

	It("N14 knows what the one before cut off while it waited for that one's end", func(ctx SpecContext) {
		pod, s, _ := m.adopted(ctx, "twice")
		told := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(told)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		next := *m.machine
		next.health = freeAddress()
		next.options.HealthAddress = next.health
		next.start()
		Eventually(told).Should(gbytes.Say("waiting for another agent"))
		said, err := m.cut(ctx, pod, "it talks")
		Expect(err).NotTo(HaveOccurred())
		Expect(s.cut()).To(Equal(said))
		m.runtime.remove(s.id)
		Expect(m.states.Remove(s.id)).To(Succeed())
		m.patch(ctx, pod, `{"metadata":{"annotations":{"`+watcher.CutAnnotation+`":null}}}`)
		m.stop()
		next.started()
		Expect(refusal(m.ask(ctx, m.request(pod, string(pod.UID), m.sandbox()))).Code).To(Equal("CutBefore"))
	})

	It("N8 adopts a pod whose ADD it missed: that it has no lease yet is no reason to cut it off", func(ctx SpecContext) {
		pod := m.create(ctx, m.goodPod("early"))
		s := m.sandbox()
		m.stop()
		r := m.request(pod, string(pod.UID), s)
		m.start()
		m.started()
		Expect(m.ask(ctx, r)).To(Succeed())
		Expect(s.netns.Remaining()).To(BeNumerically("~", lock.Lease, 2*time.Second))
	})

	It("I2 remembers no namespace of a release that has left", func(ctx SpecContext) {
		remembered := func() string {
			data, err := os.ReadFile(filepath.Join(m.options.Memory, "governed.json"))
			Expect(err).NotTo(HaveOccurred())
			return string(data)
		}
		Expect(remembered()).To(ContainSubstring(m.governed))
		cm, err := plane.Kube.CoreV1().ConfigMaps(m.own).Get(ctx, watcher.ConfigName("hf"), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		cm.Data[watcher.LeavingKey], cm.Data[watcher.StateKey] = "x", "leaving"
		_, err = plane.Kube.CoreV1().ConfigMaps(m.own).Update(ctx, cm, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(remembered).Should(Equal("{}"))
	})
})

var _ = Describe("a pod that was ordered to be cut off", func() {
	m := newRunning()

	It("N14 is told of once, with its first reason, whatever agents start after", func(ctx SpecContext) {
		pod, s, _ := m.adopted(ctx, "asked")
		said, err := m.cut(ctx, pod, "it talks")
		Expect(err).NotTo(HaveOccurred())
		m.stop()
		told := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(told)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		m.start()
		m.started()
		Expect(string(told.Contents())).NotTo(ContainSubstring("pod cut off"), "it would be counted")
		Expect(s.cut()).To(Equal(said))
		Expect(m.annotation(ctx, pod, watcher.CutOffAnnotation)()).To(Equal(said))
	})

	It("N14 I1 is never adopted again though the kernel refuses, nor by the next agent, and is told of when it is done", func(ctx SpecContext) {
		pod, s, r := m.adopted(ctx, "asked")
		allow := s.refuseCuts()
		told := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(told)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		m.patch(ctx, pod, `{"metadata":{"annotations":{"`+watcher.CutAnnotation+`":"it talks"}}}`)
		file := filepath.Join(m.options.Memory, "cut", string(pod.UID)+".json")
		Eventually(func() string { data, _ := os.ReadFile(file); return string(data) }).
			Should(And(ContainSubstring(`"code":"Requested"`), ContainSubstring(`"pending":true`)))
		Eventually(told).Should(gbytes.Say("not cut off yet"))
		Expect(refusal(m.ask(ctx, r)).Code).To(Equal("CutBefore"))
		By("the next agent, which the kernel refuses too")
		m.stop()
		m.start()
		Eventually(m.code(ctx, r)).Should(Equal("CutBefore"))
		m.started()
		Expect(refusal(m.ask(ctx, m.request(pod, string(pod.UID), m.sandbox()))).Code).To(Equal("CutBefore"), "in another sandbox")
		Expect(string(told.Contents())).NotTo(ContainSubstring("pod cut off"))
		Expect(m.annotation(ctx, pod, watcher.CutOffAnnotation)()).To(BeEmpty())
		Expect(m.events(ctx, pod)()).NotTo(ContainElement("Cut"))
		By("the kernel gives in")
		allow()
		Eventually(m.annotation(ctx, pod, watcher.CutOffAnnotation)).Should(Equal("Requested: it talks"))
		Eventually(m.events(ctx, pod)).Should(ContainElement("Cut"))
		Eventually(func() ([]byte, error) { return os.ReadFile(file) }).ShouldNot(ContainSubstring("pending"))
		Expect(string(told.Contents())).To(ContainSubstring(`"reason":"Requested"`))
		Expect(string(told.Contents())).NotTo(ContainSubstring(`"reason":"Expired"`))
	})
})

// cut asks as a person does, who doesn't wait for ever.
func (m *machine) cut(ctx context.Context, pod *corev1.Pod, reason string) (said string, err error) {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	return agent.RequestCut(ctx, plane.Kube, m.governed, pod.Name, reason)
}

// debug adds an ephemeral container, which breaks the contract under any policy.
func (m *machine) debug(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func() error { // the agent writes to the pod too
		now, err := plane.Kube.CoreV1().Pods(m.governed).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debug", Image: "shell", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
		}}}
		_, err = plane.Kube.CoreV1().Pods(m.governed).UpdateEphemeralContainers(ctx, pod.Name, now, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

// code is that of the agent's refusal, once it answers.
func (m *machine) code(ctx context.Context, r adopt.Request) func() string {
	return func() string {
		var refused *adopt.Refusal
		err := m.ask(ctx, r)
		if errors.As(err, &refused) {
			return refused.Code
		}
		return fmt.Sprint(err)
	}
}

// refuseCuts makes a table of a cut's name that is owned by a socket, so that the kernel lets nobody else touch it (NFT_TABLE_F_OWNER,
// include/uapi/linux/netfilter/nf_tables.h), until allow closes that.
func (s *sandbox) refuseCuts() (allow func()) {
	GinkgoHelper()
	type result struct {
		socket int
		err    error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		socket, err := ownTable(s.path, lock.CutTable)
		made <- result{socket, err}
	}()
	r := <-made
	Expect(r.err).NotTo(HaveOccurred())
	open := true
	allow = func() {
		if open {
			open = false
			Expect(unix.Close(r.socket)).To(Succeed())
		}
	}
	DeferCleanup(allow)
	return allow
}

func ownTable(netns, table string) (socket int, err error) {
	file, err := os.Open(netns)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return 0, err
	}
	socket, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, err
	}
	const owner = 2
	message := func(kind, flags uint16, family byte, resource uint16, attributes []byte) []byte {
		out := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+4+len(attributes)))
		out = binary.NativeEndian.AppendUint16(out, kind)
		out = binary.NativeEndian.AppendUint16(out, unix.NLM_F_REQUEST|flags)
		out = append(out, 0, 0, 0, 0, 0, 0, 0, 0, family, unix.NFNETLINK_V0)
		return append(binary.BigEndian.AppendUint16(out, resource), attributes...)
	}
	attribute := func(kind uint16, data []byte) []byte {
		out := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
		out = append(binary.NativeEndian.AppendUint16(out, kind), data...)
		return append(out, make([]byte, -len(out)&3)...)
	}
	attributes := append(attribute(unix.NFTA_TABLE_NAME, append([]byte(table), 0)), attribute(unix.NFTA_TABLE_FLAGS, []byte{0, 0, 0, owner})...)
	batch := message(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
	batch = append(batch, message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, unix.NFPROTO_INET, 0, attributes)...)
	batch = append(batch, message(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)...)
	return socket, unix.Sendto(socket, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}
