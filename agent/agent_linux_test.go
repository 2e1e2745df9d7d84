package agent_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast-cni/holdfast/agent"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/watcher"
)

var _ = Describe("a pod that the plugin asks for", func() {
	m := newRunning()

	It("N8 N15 is adopted if it keeps its contract, and what was proved of it is recorded", func(ctx SpecContext) {
		pod, s, r := m.adopted(ctx, "good")
		Expect(s.netns.Remaining()).To(BeNumerically("~", lock.Lease, 2*time.Second))
		stamp, err := s.netns.ReadStamp()
		Expect(err).NotTo(HaveOccurred())
		Expect(stamp.Release).To(Equal("v1.2.3"))
		Expect(stamp.Rules).To(Equal(rules.Digest()))
		Eventually(m.annotation(ctx, pod, watcher.ProofAnnotation)).Should(Equal("chain=runtime rules=" + rules.Digest() + " agent=v1.2.3"))
		Eventually(m.events(ctx, pod)).Should(ContainElement("Locked"))
		By("asking again, as a runtime may")
		Expect(m.ask(ctx, r)).To(Succeed())
		By("renewing it within 5 s, with a stamp")
		Eventually(func() time.Duration { now, _ := s.netns.ReadStamp(); return now.Beat }).Should(BeNumerically(">", stamp.Beat))
		Expect(s.netns.Verify(mustRecord(r.Record))).To(Succeed())
	})

	It("N8 is refused with the first reason if it breaks its contract", func(ctx SpecContext) {
		for name, does := range map[string]func(*corev1.Pod){
			"no-sidecar":    func(p *corev1.Pod) { p.Spec.InitContainers = nil },
			"sidecars-user": func(p *corev1.Pod) { *p.Spec.Containers[0].SecurityContext.RunAsUser = lock.SidecarUID },
			"other-image": func(p *corev1.Pod) {
				p.Spec.InitContainers[0].Image = "holdfast@" + strings.Replace(image, "0123", "3210", 1)
			},
		} {
			pod := m.goodPod(name)
			does(pod)
			pod = m.create(ctx, pod)
			s := m.sandbox()
			refused := refusal(m.ask(ctx, m.request(pod, string(pod.UID), s)))
			Expect(refused.Code).To(Equal("ContractBroken"), name)
			Expect(refused.Retry).To(BeFalse())
			_, err := s.netns.Remaining()
			Expect(err).To(MatchError(lock.ErrExpired), "no lease, ever: %s", name)
			Eventually(m.events(ctx, pod)).Should(ContainElement("NotAdopted"))
		}
	})

	It("N8 is refused if it is a static one: later while nothing says so, and for good once a mirror does", func(ctx SpecContext) {
		const hash = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
		pod := m.goodPod("static-" + m.name)
		s := m.sandbox()
		r := m.request(pod, hash, s)
		refused := refusal(m.ask(ctx, r))
		Expect(refused.Code).To(Equal("PodUnknown"))
		Expect(refused.Retry).To(BeTrue())
		Expect(refused.Fix).To(ContainSubstring("if the pod is a static one, run it by a DaemonSet"))
		By("a mirror that keeps the contract, which anybody may have made")
		mirror := m.mirrorOf(ctx, pod, hash)
		for _, uid := range []string{hash, string(mirror.UID), "another"} {
			r.UID = uid
			refused = refusal(m.ask(ctx, r))
			Expect(refused.Code).To(Equal("StaticPod"), uid)
			Expect(refused.Retry).To(BeFalse())
		}
		Expect(s.netns.Remaining()).Error().To(MatchError(lock.ErrExpired), "no lease, ever")
		Eventually(m.events(ctx, mirror)).Should(ContainElement("NotAdopted"))
	})

	It("I1 is refused if the request is not about what is there", func(ctx SpecContext) {
		pod := m.create(ctx, m.goodPod("lies"))
		s := m.sandbox()
		other := m.sandbox()
		r := m.request(pod, string(pod.UID), s)
		lie := r
		lie.NetNS = other.path
		Expect(refusal(m.ask(ctx, lie)).Code).To(Equal("OtherNamespace"), "another namespace's path")
		lie = r
		lie.Boot = "another"
		Expect(refusal(m.ask(ctx, lie)).Code).To(Equal("OtherNamespace"), "another boot")
		lie = r
		lie.NetNS = fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
		Expect(refusal(m.ask(ctx, lie)).Code).To(Equal("OtherNamespace"), "the host's")
		lie = r
		lie.UID = "another"
		Expect(refusal(m.ask(ctx, lie)).Code).To(Equal("PodUnknown"), "another pod")
		lie = r
		lie.Namespace = "kube-system"
		Expect(refusal(m.ask(ctx, lie)).Code).To(Equal("Reserved"), "a namespace that is never governed")
		tamper(s)
		Expect(refusal(m.ask(ctx, r)).Code).To(Equal("RulesDiffer"), "other rules than recorded")
	})
})

var _ = Describe("a pod that is kept", func() {
	m := newRunning()

	It("N14 is cut off at once if its annotation asks for it, and never adopted again", func(ctx SpecContext) {
		pod, s, r := m.adopted(ctx, "asked")
		said, err := agent.RequestCut(ctx, plane.Kube, m.governed, pod.Name, "it  talks\ntoo much")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(Equal("Requested: it talks too much"))
		Expect(s.cut()).To(Equal(said))
		Eventually(m.events(ctx, pod)).Should(ContainElement("Cut"))
		Expect(refusal(m.ask(ctx, r)).Code).To(Equal("CutBefore"))
		By("in another sandbox, after the agent's restart")
		m.stop()
		m.start()
		m.started()
		again := m.sandbox()
		Expect(refusal(m.ask(ctx, m.request(pod, string(pod.UID), again))).Code).To(Equal("CutBefore"))
		m.runs(pod, string(pod.UID), again)
		Eventually(again.cut).Should(ContainSubstring("it talks too much"), "should it run all the same")
	})

	It("N14 is cut off at once if its annotation asks for it while the runtime answers nothing", func(ctx SpecContext) {
		pod, s, _ := m.adopted(ctx, "asked")
		const silent = 300 // for 2 s each, more of them than are asked about at once
		m.silent(silent)
		Eventually(m.runtime.asked.Load).ShouldNot(BeZero())
		m.patch(ctx, pod, `{"metadata":{"annotations":{"`+watcher.CutAnnotation+`":"it talks"}}}`)
		Eventually(s.cut).WithTimeout(15 * time.Second).Should(Equal("Requested: it talks"))
		Expect(m.runtime.asked.Load()).To(BeNumerically("<", silent), "what runs is still being looked at")
	})

	It("N8 I1 is judged by no mirror that claims its UID once the API server has it no more", func(ctx SpecContext) {
		pod, s, r := m.adopted(ctx, "deleted")
		other, seen, _ := m.adopted(ctx, "other")
		Expect(plane.Kube.CoreV1().Pods(m.governed).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})).To(Succeed())
		forged := m.goodPod(pod.Name)
		forged.Annotations = map[string]string{watcher.CutAnnotation: "a forged reason"}
		forged.Spec.InitContainers = nil
		m.mirrorOf(ctx, forged, string(pod.UID))
		_, err := m.cut(ctx, other, "what came before is seen by then")
		Expect(err).NotTo(HaveOccurred())
		Expect(seen.cut()).NotTo(BeEmpty())
		Expect(s.cut()).To(BeEmpty())
		Expect(refusal(m.ask(ctx, r)).Code).To(Equal("StaticPod"))
	})

	It("N8 I1 is cut off if an update breaks its contract", func(ctx SpecContext) {
		pod, s, _ := m.adopted(ctx, "debugged")
		m.debug(ctx, pod)
		Eventually(s.cut).WithTimeout(5 * time.Second).Should(And(HavePrefix("ContractBroken: "), ContainSubstring(`container "debug"`)))
		Eventually(m.annotation(ctx, pod, watcher.CutOffAnnotation)).Should(HavePrefix("ContractBroken"))
	})

	It("N19 is not cut off because plugin.json changed, and an update that breaks nothing is none", func(ctx SpecContext) {
		pod, s, _ := m.adopted(ctx, "older")
		m.configureImages(ctx, strings.Replace(image, "0123", "3210", 1), m.governed)
		next := m.goodPod("newer")
		Eventually(func(g Gomega) { // until the agent goes by it
			next.Name = "newer-" + time.Now().Format("150405.000000")
			made := m.create(ctx, next)
			box := m.sandbox()
			g.Expect(m.ask(ctx, m.request(made, string(made.UID), box))).NotTo(Succeed())
		}).Should(Succeed())
		m.patch(ctx, pod, `{"metadata":{"labels":{"x":"y"},"annotations":{"x":"y"}}}`)
		Consistently(s.cut).WithTimeout(2 * time.Second).Should(BeEmpty())
	})

	It("N14 is cut off within a second when another process changes its rules", func(ctx SpecContext) {
		pod, s, _ := m.adopted(ctx, "tampered")
		time.Sleep(200 * time.Millisecond) // one that is not heard yet would be found at the next look, after a minute
		tamper(s)
		Eventually(s.cut).WithTimeout(2 * time.Second).Should(And(HavePrefix("Tampered: process "), ContainSubstring("changed the lock's rules")))
		Eventually(m.annotation(ctx, pod, watcher.CutOffAnnotation)).Should(HavePrefix("Tampered: process "))
	})

	It("N14 is cut off when another process changes its rules and changes them back at once, and not for another table", func(ctx SpecContext) {
		_, s, _ := m.adopted(ctx, "undone")
		_, other, _ := m.adopted(ctx, "other")
		time.Sleep(200 * time.Millisecond) // what nobody hears yet is not known of
		change(other, func(conn *nftables.Conn) {
			conn.AddTable(&nftables.Table{Name: "of-another", Family: nftables.TableFamilyINet})
		})
		change(s, changeAndBack)
		Eventually(s.cut).WithTimeout(2 * time.Second).Should(And(HavePrefix("Tampered: process "), HaveSuffix("and perhaps changed them back")))
		Consistently(other.cut).WithTimeout(time.Second).Should(BeEmpty())
	})

	It("N12 N19 is renewed by the next agent, which is ready once it has done so twice", func(ctx SpecContext) {
		pod, s, r := m.adopted(ctx, "kept")
		m.stop()
		Expect(s.netns.Renew(lock.Lease / 2)).To(Succeed()) // as after 45 s
		began := time.Now()
		m.start()
		Eventually(func() (time.Duration, error) { return s.netns.Remaining() }).Should(BeNumerically(">", lock.Lease-5*time.Second))
		Expect(m.ready()).NotTo(Succeed(), "renewed once")
		m.started()
		Expect(time.Since(began)).To(BeNumerically("<", 15*time.Second))
		Expect(s.cut()).To(BeEmpty())
		Expect(m.ask(ctx, r)).To(Succeed())
		Consistently(m.annotation(ctx, pod, watcher.CutOffAnnotation)).WithTimeout(time.Second).Should(BeEmpty())
	})

	It("N13 is cut off for good once no agent renewed it in time", func(ctx SpecContext) {
		pod, s, r := m.adopted(ctx, "late")
		m.stop()
		Expect(s.netns.Renew(100 * time.Millisecond)).To(Succeed()) // as after 90 s
		time.Sleep(200 * time.Millisecond)
		m.start()
		Eventually(s.cut).Should(HavePrefix("Expired"))
		Eventually(m.annotation(ctx, pod, watcher.CutOffAnnotation)).Should(HavePrefix("Expired"))
		m.started()
		Expect(refusal(m.ask(ctx, r)).Code).To(Equal("CutBefore"))
	})

	It("I1 is cut off if what was recorded of it is of another boot, cut short, of another namespace, or gone", func(ctx SpecContext) {
		does := map[string]func(path string){
			"gone":      func(path string) { Expect(os.Remove(path)).To(Succeed()) },
			"truncated": func(path string) { Expect(os.Truncate(path, 100)).To(Succeed()) },
			"boot":      func(path string) { replace(path, `"boot":"`, `"boot":"x`) },
			"inode":     func(path string) { replace(path, `"inode":`, `"inode":9`) },
		}
		boxes := map[string]*sandbox{}
		for name := range does {
			_, boxes[name], _ = m.adopted(ctx, name)
		}
		m.stop()
		for name, s := range boxes {
			does[name](filepath.Join(m.states.Folder, s.id+".json"))
		}
		m.start()
		for name, s := range boxes {
			Eventually(s.cut).Should(HavePrefix("StateLost"), name)
		}
	})

	It("is let go of when its sandbox ends", func(ctx SpecContext) {
		_, s, _ := m.adopted(ctx, "ends")
		m.runtime.remove(s.id)
		Expect(m.states.Remove(s.id)).To(Succeed())
		Eventually(s.netns.Remaining, "30s").Should(BeNumerically("<", lock.Lease-2*lock.RenewEvery), "nobody renews it")
		Expect(s.cut()).To(BeEmpty())
	})
})

var _ = Describe("what got past the chain", func() {
	var m *machine
	BeforeEach(func(ctx SpecContext) { m = newMachine(ctx) })

	It("N18 is cut off within 5 s, reported and marked, in a governed namespace and with the annotation", func(ctx SpecContext) {
		m.start()
		m.started()
		pod := m.create(ctx, m.goodPod("raced"))
		annotated := m.goodPod("annotated")
		annotated.Namespace, annotated.Annotations = "default", map[string]string{watcher.GovernedAnnotation: "true"}
		annotated.GenerateName, annotated.Name = "annotated-", ""
		annotated = m.create(ctx, annotated)
		free := m.goodPod("")
		free.Namespace, free.GenerateName = "default", "free-"
		free = m.create(ctx, free)
		s := m.unlocked(pod)
		byItself := m.unlocked(annotated, func(b *box) { b.annotations = annotated.Annotations })
		ungoverned := m.unlocked(free)
		claim := m.goodPod("claim-" + m.name)
		claim.Namespace, claim.Annotations = "default", map[string]string{watcher.GovernedAnnotation: "true"}
		claim = m.mirrorOf(ctx, claim, "claimed")
		claimed := m.runs(claim, "claimed", m.sandbox())
		Eventually(s.cut).WithTimeout(5 * time.Second).Should(HavePrefix("PastChain"))
		Eventually(byItself.cut).WithTimeout(5 * time.Second).Should(HavePrefix("PastChain"))
		Eventually(m.annotation(ctx, pod, watcher.EvictAnnotation)).Should(Equal("past-chain"))
		Eventually(m.annotation(ctx, pod, watcher.CutOffAnnotation)).Should(HavePrefix("PastChain"))
		Eventually(m.events(ctx, pod)).Should(ContainElements("Cut", "Unlocked"))
		Consistently(func() string { return ungoverned.cut() + claimed.cut() }).WithTimeout(4*time.Second).Should(BeEmpty(), "I2")
		Expect(m.annotation(ctx, claim, watcher.EvictAnnotation)()).To(BeEmpty(), "a mirror governs nothing")
	})

	It("N18 is cut off while the runtime answers nothing of others", func(ctx SpecContext) {
		m.start()
		m.started()
		const silent = 10
		m.silent(silent)
		s := m.unlocked(m.create(ctx, m.goodPod("past")))
		Eventually(m.runtime.asked.Load).Should(BeEquivalentTo(silent))
		Expect(m.runtime.left.Load()).To(BeZero(), "all are asked about before the first is given up")
		Eventually(s.cut).Should(HavePrefix("PastChain"))
	})

	It("N18 is found beside pods with as many annotations as the API server takes", func(ctx SpecContext) {
		for i := range 20 {
			m.runtime.add(&box{id: fmt.Sprintf("fat-%s-%d", m.name, i), namespace: "elsewhere", name: "fat", uid: "fat", netns: "/nowhere", created: time.Now(),
				annotations: map[string]string{"a": strings.Repeat("x", 256_000)}})
		}
		m.start()
		m.started()
		s := m.unlocked(m.create(ctx, m.goodPod("past")))
		Eventually(s.cut).Should(HavePrefix("PastChain"))
	})

	It("N18 N19 is not Ready while what runs can't be compared", func(ctx SpecContext) {
		m.start()
		m.started()
		m.runtime.failing.Store(true)
		Eventually(m.ready).WithTimeout(time.Minute).Should(HaveOccurred())
		m.runtime.failing.Store(false)
		m.started()
	})

	It("N18 is found when the agent starts", func(ctx SpecContext) {
		pod := m.create(ctx, m.goodPod("before"))
		s := m.unlocked(pod)
		m.start()
		Eventually(s.cut).Should(HavePrefix("PastChain"))
	})

	It("N18 was there before its namespace was governed: reported and marked, and no more of them than the limit", func(ctx SpecContext) {
		old := func(b *box) { b.created = time.Now().Add(-time.Hour) }
		first, second := m.create(ctx, m.goodPod("old-1")), m.create(ctx, m.goodPod("old-2"))
		a, b := m.unlocked(first, old), m.unlocked(second, old)
		m.start()
		m.started()
		Eventually(func() []string {
			return []string{m.annotation(ctx, first, watcher.EvictAnnotation)(), m.annotation(ctx, second, watcher.EvictAnnotation)()}
		}).Should(ConsistOf("existing", ""))
		Eventually(m.events(ctx, first)).Should(ContainElement("Unlocked"))
		Eventually(m.events(ctx, second)).Should(ContainElement("Unlocked"))
		Consistently(func() string { return a.cut() + b.cut() }).WithTimeout(4 * time.Second).Should(BeEmpty())
	})

	It("N18 was there before its namespace was governed: cut off where existingPods says so", func(ctx SpecContext) {
		m.options.Existing = agent.Cut
		pod := m.create(ctx, m.goodPod("old"))
		s := m.unlocked(pod, func(b *box) { b.created = time.Now().Add(-time.Hour) })
		m.start()
		Eventually(s.cut).Should(HavePrefix("PastChain"))
		Eventually(m.annotation(ctx, pod, watcher.EvictAnnotation)).Should(Equal("existing"))
	})

	It("N8 I2 is on the node's own network: reported and marked, never cut", func(ctx SpecContext) {
		static := m.goodPod("host-0")
		static.Spec.HostNetwork = true
		static = m.mirrorOf(ctx, static, "0a1b2c3d4e5f60718293a4b5c6d7e8f9")
		m.runtime.add(&box{id: "host-" + static.Name, namespace: m.governed, name: static.Name, uid: "0a1b2c3d4e5f60718293a4b5c6d7e8f9", created: time.Now(), host: true})
		said, lied := m.goodPod("host-1"), m.goodPod("host-2")
		said.Spec.HostNetwork = true
		said, lied = m.create(ctx, said), m.create(ctx, lied)
		m.runtime.add(&box{id: "host-" + said.Name, namespace: m.governed, name: said.Name, uid: string(said.UID), created: time.Now(), host: true})
		m.runtime.add(&box{id: "host-" + lied.Name, namespace: m.governed, name: lied.Name, uid: string(lied.UID), created: time.Now(), netns: fmt.Sprintf("/proc/%d/ns/net", os.Getpid())})
		m.start()
		for _, pod := range []*corev1.Pod{static, said, lied} {
			Eventually(m.annotation(ctx, pod, watcher.EvictAnnotation)).Should(Equal("host-network"))
			Eventually(m.events(ctx, pod)).Should(ContainElement("Unlocked"))
		}
		links, err := net.Interfaces()
		Expect(err).NotTo(HaveOccurred())
		Expect(links[0].Flags & net.FlagUp).NotTo(BeZero())
	})
})

var _ = Describe("an API server that is away", func() {
	It("I1 N12 means that no pod is adopted, and that those that are kept are renewed, by the next agent too", func(ctx SpecContext) {
		m := newMachine(ctx)
		way := newWay(plane.Config.Host)
		m.config = rest.CopyConfig(plane.Config)
		m.config.Host = way.address()
		stop := m.start()
		m.started()
		_, s, _ := m.adopted(ctx, "kept")
		way.close()
		time.Sleep(100 * time.Millisecond)
		pod := m.create(ctx, m.goodPod("new"))
		fresh := m.sandbox()
		r := m.request(pod, string(pod.UID), fresh)
		refused := refusal(m.ask(ctx, r))
		Expect(refused.Code).To(Equal("APIUnreachable"))
		Expect(refused.Retry).To(BeTrue())
		stop()
		Expect(s.netns.Renew(lock.Lease / 2)).To(Succeed())
		m.start()
		Eventually(func() (time.Duration, error) { return s.netns.Remaining() }).Should(BeNumerically(">", lock.Lease-5*time.Second))
		refused = refusal(m.ask(ctx, r))
		Expect(refused.Code).To(Equal("Starting"))
		Expect(refused.Retry).To(BeTrue())
		Expect(m.ready()).NotTo(Succeed())
	})
})

// tamper adds a rule to the lock.
func tamper(s *sandbox) {
	GinkgoHelper()
	change(s, func(conn *nftables.Conn) {
		table := &nftables.Table{Name: lock.Table, Family: nftables.TableFamilyINet}
		conn.InsertRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: "lock_out", Table: table}, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}})
	})
}

// changeAndBack adds a chain to the lock, and removes it.
func changeAndBack(conn *nftables.Conn) {
	chain := &nftables.Chain{Name: "more", Table: &nftables.Table{Name: lock.Table, Family: nftables.TableFamilyINet}}
	conn.AddChain(chain)
	conn.DelChain(chain)
}

// change is one transaction, by a socket of its own.
func change(s *sandbox, does func(*nftables.Conn)) {
	GinkgoHelper()
	file, err := os.Open(s.path)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(file.Close()).To(Succeed()) }()
	conn, err := nftables.New(nftables.WithNetNSFd(int(file.Fd())))
	Expect(err).NotTo(HaveOccurred())
	does(conn)
	Expect(conn.Flush()).To(Succeed())
}

func mustRecord(data []byte) lock.Record {
	GinkgoHelper()
	record, err := lock.ParseRecord(data)
	Expect(err).NotTo(HaveOccurred())
	return record
}

func replace(path, old, new string) {
	GinkgoHelper()
	data, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o600)).To(Succeed())
}

// way is a TCP connection to the API server that can be cut.
type way struct {
	listener net.Listener
	mu       sync.Mutex
	open     []net.Conn
	closed   bool
}

func newWay(host string) *way {
	GinkgoHelper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	w := &way{listener: l}
	DeferCleanup(w.close)
	target := strings.Trim(strings.TrimPrefix(host, "https:"), "/")
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", target)
			if err != nil {
				_ = from.Close()
				continue
			}
			w.mu.Lock()
			w.open = append(w.open, from, to)
			closed := w.closed
			w.mu.Unlock()
			if closed {
				w.close()
			}
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
	return w
}

func (w *way) address() string { return "https://" + w.listener.Addr().String() }

func (w *way) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, c := range w.open {
		_ = c.Close()
	}
}
