package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-cni/holdfast/watcher"
)

var _ = Describe("a disk that hangs", func() {
	var m *machine
	var disk *disk
	var stop func()
	BeforeEach(func(ctx SpecContext) {
		m = newMachine(ctx)
		disk = newDisk()
		m.options.Memory = filepath.Join(disk.path, "memory")
		stop = m.start()
		m.started()
	})
	written := func(pod *corev1.Pod) func() (string, error) {
		return func() (string, error) {
			data, err := os.ReadFile(filepath.Join(m.options.Memory, "cut", string(pod.UID)+".json"))
			return string(data), err
		}
	}

	It("N14 N18 holds up no cut, no word of one and no adoption, and gets what it missed", func(ctx SpecContext) {
		asked, s, r := m.adopted(ctx, "asked")
		disk.freeze()
		By("one that is asked for")
		m.patch(ctx, asked, `{"metadata":{"annotations":{"`+watcher.CutAnnotation+`":"it talks"}}}`)
		Eventually(s.cut).Should(Equal("Requested: it talks"))
		Eventually(m.annotation(ctx, asked, watcher.CutOffAnnotation)).Should(Equal("Requested: it talks"))
		Expect(refusal(m.ask(ctx, r)).Code).To(Equal("CutBefore"))
		By("those that got past the chain, one after the other")
		var past []*corev1.Pod
		for _, name := range []string{"past-1", "past-2"} {
			pod := m.create(ctx, m.goodPod(name))
			Eventually(m.unlocked(pod).cut).Should(HavePrefix("PastChain"))
			Eventually(m.annotation(ctx, pod, watcher.EvictAnnotation)).Should(Equal("past-chain"))
			past = append(past, pod)
		}
		By("new pods")
		m.adopted(ctx, "good")
		Expect(m.ready()).To(Succeed())
		By("answering again")
		disk.thaw()
		for _, pod := range append(past, asked) {
			Eventually(written(pod)).Should(And(ContainSubstring(string(pod.UID)), Not(ContainSubstring("pending"))))
		}
	})

	It("N14 holds up no end of the agent, which tries a last time", func(ctx SpecContext) {
		asked, s, _ := m.adopted(ctx, "asked")
		disk.freeze()
		m.patch(ctx, asked, `{"metadata":{"annotations":{"`+watcher.CutAnnotation+`":"it talks"}}}`)
		Eventually(s.cut).Should(Equal("Requested: it talks"))
		stop()
		disk.thaw()
		Eventually(written(asked)).Should(And(ContainSubstring("it talks"), Not(ContainSubstring("pending"))))
	})
})

// disk is a filesystem of its own, which can be made to answer no write.
type disk struct {
	path   string
	root   *os.File
	frozen bool
}

func newDisk() *disk {
	GinkgoHelper()
	folder, err := os.MkdirTemp("", "disk-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(os.RemoveAll(folder)).To(Succeed()) })
	image, d := filepath.Join(folder, "image"), &disk{path: filepath.Join(folder, "disk")}
	Expect(os.WriteFile(image, nil, 0o600)).To(Succeed())
	Expect(os.Truncate(image, 16<<20)).To(Succeed())
	Expect(os.Mkdir(d.path, 0o700)).To(Succeed())
	for _, command := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, d.path}} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%v: %s", command, out)
	}
	DeferCleanup(func() { Eventually(func() error { return unix.Unmount(d.path, 0) }).Should(Succeed()) })
	return d
}

// freeze holds up every write from now on (ioctl_fsfreeze, linux/fs.h), until thaw or the spec's end.
func (d *disk) freeze() {
	GinkgoHelper()
	const fifreeze = 0xC0045877
	var err error
	d.root, err = os.Open(d.path)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(d.thaw)
	Expect(unix.IoctlSetInt(int(d.root.Fd()), fifreeze, 0)).To(Succeed())
	d.frozen = true
}

func (d *disk) thaw() {
	GinkgoHelper()
	const fithaw = 0xC0045878
	if d.frozen {
		d.frozen = false
		Expect(unix.IoctlSetInt(int(d.root.Fd()), fithaw, 0)).To(Succeed())
		Expect(d.root.Close()).To(Succeed())
	}
}
