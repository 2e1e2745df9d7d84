package plugin

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	links "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast-cni/holdfast/lock"
)

// The main goroutine keeps the main thread: lock.Open takes the network namespace of /proc/self for the host's.
func init() { runtime.LockOSThread() }

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
}

// userBase is what user 0 of a pod's own user namespace is outside.
const userBase = 200000

// holdNetns is the path of a new network namespace, there as long as the test runs. With a user namespace of its own it is as those
// of hostUsers: false pods are.
func holdNetns(t *testing.T, userNamespace bool) string {
	t.Helper()
	needRoot(t)
	holder := exec.Command("sleep", "600")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET} // no Pdeathsig: threads of a test end
	if userNamespace {
		holder.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		holder.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: userBase, Size: 65536}}
		holder.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: userBase, Size: 65536}}
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	return fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
}

// podNet is a pod's network: interfaces eth0 …, each with a peer outside of it that counts what comes.
type podNet struct {
	path       string
	v4, v6     bool
	users      int // what is added to a user inside to name it outside
	interfaces int
	peers      *links.Handle
}

// network makes one.
func network(t *testing.T, v4, v6, userNamespace bool, interfaces int) *podNet {
	t.Helper()
	p := &podNet{path: holdNetns(t, userNamespace), v4: v4, v6: v6, interfaces: interfaces}
	if userNamespace {
		p.users = userBase
	}
	handle := func(path string) (netns.NsHandle, *links.Handle) {
		ns, err := netns.GetFromPath(path)
		if err != nil {
			t.Fatal(err)
		}
		h, err := links.NewHandleAt(ns)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = errors.Join(h.Close(), ns.Close()) })
		return ns, h
	}
	outside, peers := handle(holdNetns(t, false))
	_, inside := handle(p.path)
	p.peers = peers
	for i := range interfaces {
		if err := p.connect(inside, int(outside), i); err != nil {
			t.Fatal(err)
		}
		await(t, inside, fmt.Sprintf("eth%d", i))
		await(t, peers, fmt.Sprintf("peer%d", i))
	}
	return p
}

// await returns when the link passes packets: until then its queue drops them.
func await(t *testing.T, h *links.Handle, name string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		link, err := h.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if link.Attrs().OperState == links.OperUp {
			return
		}
	}
	t.Fatalf("link %s doesn't come up", name)
}

func mac(side, i int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, byte(side), byte(i)} }

// connect makes one interface. Of several each has a network of its own, and the first the default routes.
func (p *podNet) connect(inside *links.Handle, outside, i int) error {
	name, peer := fmt.Sprintf("eth%d", i), fmt.Sprintf("peer%d", i)
	attrs := links.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = name, mac(0, i)
	err := inside.LinkAdd(&links.Veth{LinkAttrs: attrs, PeerName: peer, PeerHardwareAddr: mac(1, i), PeerNamespace: links.NsFd(outside)})
	if err != nil {
		return err
	}
	near, err := inside.LinkByName(name)
	if err != nil {
		return err
	}
	far, err := p.peers.LinkByName(peer)
	if err != nil {
		return err
	}
	err = errors.Join(inside.LinkSetUp(near), p.peers.LinkSetUp(far))
	for _, family := range []struct {
		on         bool
		addr, gate string
	}{{p.v4, fmt.Sprintf("10.244.%d.2/24", i), fmt.Sprintf("10.244.%d.1", i)}, {p.v6, fmt.Sprintf("fd00:%d::2/64", i), fmt.Sprintf("fd00:%d::1", i)}} {
		if !family.on {
			continue
		}
		addr, parseErr := links.ParseAddr(family.addr)
		if parseErr != nil {
			return parseErr
		}
		addr.Flags = unix.IFA_F_NODAD
		index, gate := near.Attrs().Index, net.ParseIP(family.gate)
		err = errors.Join(err, inside.AddrAdd(near, addr),
			inside.NeighSet(&links.Neigh{LinkIndex: index, State: links.NUD_PERMANENT, IP: gate, HardwareAddr: mac(1, i)}))
		if i == 0 {
			err = errors.Join(err, inside.RouteAdd(&links.Route{LinkIndex: index, Gw: gate}))
		}
	}
	return err
}

// received is how many packets have come out of the pod.
func (p *podNet) received(t *testing.T) (all uint64) {
	t.Helper()
	for i := range p.interfaces {
		link, err := p.peers.LinkByName(fmt.Sprintf("peer%d", i))
		if err != nil {
			t.Fatal(err)
		}
		all += link.Attrs().Statistics.RxPackets
	}
	return all
}

// burst is how many datagrams a try sends to each place.
const burst = 20

// targets are a resolver of each family, and something in the network of each interface.
func (p *podNet) targets() (resolvers, others []string) {
	if p.v4 {
		resolvers = append(resolvers, "10.96.0.10:53")
	}
	if p.v6 {
		resolvers = append(resolvers, "[fd00:96::a]:53")
	}
	for i := range p.interfaces {
		if p.v4 {
			others = append(others, fmt.Sprintf("10.244.%d.1:5000", i))
		}
		if p.v6 {
			others = append(others, fmt.Sprintf("[fd00:%d::1]:5000", i))
		}
	}
	return resolvers, others
}

// send sends a burst to each place as a user and group of the pod, and returns how many packets came out meanwhile.
func (p *podNet) send(t *testing.T, user int, to []string) uint64 {
	t.Helper()
	before := p.received(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		done <- p.sendHere(user, to)
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return p.received(t) - before
}

func (p *podNet) sendHere(user int, to []string) error {
	ns, err := netns.GetFromPath(p.path)
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	if err := netns.Set(ns); err != nil {
		return err
	}
	id := uintptr(user + p.users)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
		return errno
	}
	for _, place := range to {
		conn, err := net.Dial("udp", place)
		if err != nil {
			return err
		}
		for range burst {
			_, _ = conn.Write([]byte("x")) // refused ones fail
		}
		_ = conn.Close()
	}
	return nil
}

// remaining is how long the lease of the namespace lasts; it fails with lock.ErrExpired for a closed one.
func remaining(t *testing.T, path string) (time.Duration, error) {
	t.Helper()
	n, err := lock.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = n.Close() }()
	return n.Remaining()
}
