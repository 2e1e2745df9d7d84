package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-cni/holdfast/agent"
	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/agent/contract"
	"github.com/holdfast-cni/holdfast/e2e/controlplane"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/watcher"
)

func init() {
	// The main thread stays where it is: /proc/self is its, and lock.Open refuses the network namespace of /proc/self.
	runtime.LockOSThread()
	// Before any test has begun: nobody may change klog's logger beside one who logs.
	log := slog.New(slog.NewJSONHandler(GinkgoWriter, &slog.HandlerOptions{Level: slog.LevelInfo}))
	slog.SetDefault(log)
	klog.SetLogger(logr.FromSlogHandler(log.Handler()))
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
}

func TestAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "agent")
}

var plane *controlplane.ControlPlane

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	plane, err = controlplane.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
})

const image = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// governing reads what the tests write as plugin.json.
func governing(data []byte, _ ...string) (g agent.Governing, err error) {
	var said struct{ Namespaces, Images []string }
	if err := json.Unmarshal(data, &said); err != nil {
		return g, err
	}
	return agent.Governing{Namespaces: said.Namespaces, Policy: contract.Policy{Images: said.Images}}, nil
}

// machine is a node: a Node of the API server, its pods' namespaces, a runtime, and the folders of plugin and agent.
type machine struct {
	name, own, governed string
	folder, health      string
	options             agent.Options
	config              *rest.Config
	runtime             *sandboxes
	states              adopt.Store
}

var machines atomic.Int64

func newMachine(ctx context.Context) *machine {
	GinkgoHelper()
	n := machines.Add(1)
	m := &machine{name: fmt.Sprintf("node-%d", n), own: fmt.Sprintf("holdfast-%d", n), governed: fmt.Sprintf("agents-%d", n), config: plane.Config}
	folder, err := os.MkdirTemp("", "agent-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(os.RemoveAll(folder)).To(Succeed()) })
	m.folder = folder
	m.runtime = startRuntime(filepath.Join(folder, "root/run/containerd/containerd.sock"))
	m.states = adopt.Store{Folder: filepath.Join(folder, "run/pods")}
	for _, namespace := range []string{m.own, m.governed} {
		Expect(plane.Namespace(ctx, namespace)).To(Succeed())
		_, err := plane.Kube.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	m.configure(ctx, m.governed)
	node, err := plane.Kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.name}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	node.Status.Conditions = []corev1.NodeCondition{{Type: watcher.ChainedCondition, Status: corev1.ConditionTrue,
		Message: "holdfast-cni is chained last in pods (strategy drop-in, proof runtime)"}}
	_, err = plane.Kube.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	m.health = freeAddress()
	m.options = agent.Options{
		Node: m.name, Namespace: m.own, Release: "hf", Version: "v1.2.3", HostRoot: filepath.Join(folder, "root"),
		Socket: filepath.Join(folder, "run/agent.sock"), States: m.states.Folder, Memory: filepath.Join(folder, "memory"),
		Existing: agent.Report, ExistingLimit: 1, Read: governing, MetricsAddress: "0", HealthAddress: m.health,
	}
	return m
}

func freeAddress() string {
	GinkgoHelper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(port.Close()).To(Succeed()) }()
	return port.Addr().String()
}

// configure writes the ConfigMap that the chart makes.
func (m *machine) configure(ctx context.Context, namespaces ...string) {
	GinkgoHelper()
	m.configureImages(ctx, image, namespaces...)
}

func (m *machine) configureImages(ctx context.Context, image string, namespaces ...string) {
	GinkgoHelper()
	data, err := json.Marshal(map[string]any{"namespaces": namespaces, "images": []string{image}})
	Expect(err).NotTo(HaveOccurred())
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.own, Name: watcher.ConfigName("hf")},
		Data: map[string]string{watcher.StateKey: watcher.StateInstalled, watcher.PluginKey: string(data)}}
	if _, err = plane.Kube.CoreV1().ConfigMaps(m.own).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		_, err = plane.Kube.CoreV1().ConfigMaps(m.own).Create(ctx, cm, metav1.CreateOptions{})
	}
	Expect(err).NotTo(HaveOccurred())
}

// start runs the agent until the spec ends, or stop is called.
func (m *machine) start() (stop func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(agent.Run(ctx, m.config, m.options, logr.FromSlogHandler(slog.Default().Handler()))).To(Succeed())
	}()
	stop = func() { cancel(); Eventually(done).Should(BeClosed()) }
	DeferCleanup(stop)
	return stop
}

func (m *machine) ready() error {
	response, err := http.Get("http://" + m.health + "/readyz")
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// running is a machine whose agent can adopt, another for each spec of the container that it is made in. stop ends that agent.
type running struct {
	*machine
	stop func()
}

func newRunning() *running {
	r := &running{}
	BeforeEach(func(ctx SpecContext) {
		r.machine = newMachine(ctx)
		r.stop = r.start()
		r.started()
	})
	return r
}

// started waits until the agent can adopt.
func (m *machine) started() { GinkgoHelper(); Eventually(m.ready).Should(Succeed()) }

// goodPod keeps the contract.
func (m *machine) goodPod(name string) *corev1.Pod {
	restricted := func(user int64) *corev1.SecurityContext {
		return &corev1.SecurityContext{RunAsUser: &user, RunAsGroup: &user, AllowPrivilegeEscalation: ptr.To(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.governed, Name: name}, Spec: corev1.PodSpec{
		NodeName: m.name, AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		InitContainers: []corev1.Container{{
			Name: "sidecar", Image: "holdfast@" + image, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), SecurityContext: restricted(lock.SidecarUID),
			StartupProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(lock.HealthPort)}}},
		}},
		Containers: []corev1.Container{{Name: "work", Image: "work", SecurityContext: restricted(1000)}},
	}}
}

func (m *machine) create(ctx context.Context, pod *corev1.Pod) *corev1.Pod {
	GinkgoHelper()
	made, err := plane.Kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return made
}

func (m *machine) annotation(ctx context.Context, pod *corev1.Pod, key string) func() string {
	return func() string {
		now, err := plane.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return now.Annotations[key]
	}
}

func (m *machine) patch(ctx context.Context, pod *corev1.Pod, patch string) {
	GinkgoHelper()
	_, err := plane.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// events are the reasons of the pod's Events.
func (m *machine) events(ctx context.Context, pod *corev1.Pod) func() []string {
	return func() (reasons []string) {
		list, err := plane.Kube.EventsV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil
		}
		for _, e := range list.Items {
			if e.Regarding.UID == pod.UID {
				reasons = append(reasons, e.Reason)
			}
		}
		return reasons
	}
}

// mirrorOf makes of a pod the mirror of a static one with that UID, as the kubelet does, and whoever may create pods.
func (m *machine) mirrorOf(ctx context.Context, pod *corev1.Pod, uid string) *corev1.Pod {
	GinkgoHelper()
	node, err := plane.Kube.CoreV1().Nodes().Get(ctx, m.name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, corev1.MirrorPodAnnotationKey, uid)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "kubernetes.io/config.hash", uid)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: m.name, UID: node.UID}}
	return m.create(ctx, pod)
}

// sandbox is a pod's network namespace, with a thread of its own in it.
type sandbox struct {
	id, path string
	netns    *lock.Namespace // the test's own look at it
}

var containers atomic.Int64

// sandbox makes a namespace for the pod, as a runtime does. It is not ready, as before and during its ADD.
func (m *machine) sandbox() *sandbox {
	GinkgoHelper()
	s := &sandbox{id: fmt.Sprintf("c%d", containers.Add(1))}
	made, leave := make(chan string), make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if unix.Unshare(unix.CLONE_NEWNET) != nil {
			close(made)
			return
		}
		made <- fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		<-leave
	}()
	DeferCleanup(func() { close(leave) })
	s.path = <-made
	Expect(s.path).NotTo(BeEmpty(), "needs CAP_SYS_ADMIN")
	var err error
	s.netns, err = lock.Open(s.path)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = s.netns.Close() })
	return s
}

// runs shows a sandbox to whoever asks the runtime: it is ready.
func (m *machine) runs(pod *corev1.Pod, uid string, s *sandbox, change ...func(*box)) *sandbox {
	b := &box{id: s.id, namespace: pod.Namespace, name: pod.Name, uid: uid, netns: s.path, created: time.Now()}
	for _, f := range change {
		f(b)
	}
	m.runtime.add(b)
	return s
}

// unlocked is a pod that runs though no ADD locked it.
func (m *machine) unlocked(pod *corev1.Pod, change ...func(*box)) *sandbox {
	GinkgoHelper()
	return m.runs(pod, string(pod.UID), m.sandbox(), change...)
}

var rules = func() lock.Rules {
	r, err := lock.Build(lock.Config{Resolvers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, UID: lock.SidecarUID, GID: lock.SidecarGID, HealthPort: lock.HealthPort})
	if err != nil {
		panic(err)
	}
	return r
}()

// request locks the sandbox and keeps what was done, as the plugin does before it asks.
func (m *machine) request(pod *corev1.Pod, uid string, s *sandbox) adopt.Request {
	GinkgoHelper()
	record, err := s.netns.Apply(rules)
	Expect(err).NotTo(HaveOccurred())
	kept, err := json.Marshal(record)
	Expect(err).NotTo(HaveOccurred())
	boot, err := adopt.Boot()
	Expect(err).NotTo(HaveOccurred())
	r := adopt.Request{Version: adopt.Version, ContainerID: s.id, NetNS: s.path, Network: "pods", IfName: "eth0",
		Device: s.netns.ID().Device, Inode: s.netns.ID().Inode, Boot: boot,
		Namespace: pod.Namespace, Name: pod.Name, UID: uid, Rules: rules.Digest(), Record: kept}
	Expect(m.states.Write(r)).To(Succeed())
	return r
}

func (m *machine) ask(ctx context.Context, r adopt.Request) error {
	return adopt.Adopt(ctx, m.options.Socket, r)
}

// adopted is a good pod that runs, locked and leased.
func (m *machine) adopted(ctx context.Context, name string) (*corev1.Pod, *sandbox, adopt.Request) {
	GinkgoHelper()
	pod := m.create(ctx, m.goodPod(name))
	s := m.sandbox()
	r := m.request(pod, string(pod.UID), s)
	Expect(m.ask(ctx, r)).To(Succeed())
	m.runs(pod, string(pod.UID), s)
	return pod, s, r
}

// cut is why the sandbox was cut off, as its own stamp says; empty while it isn't.
func (s *sandbox) cut() string {
	stamp, err := s.netns.ReadStamp()
	if err != nil {
		return ""
	}
	return stamp.Cut
}

func refusal(err error) adopt.Refusal {
	GinkgoHelper()
	var r *adopt.Refusal
	Expect(errors.As(err, &r)).To(BeTrue(), "not a refusal: %v", err)
	return *r
}
