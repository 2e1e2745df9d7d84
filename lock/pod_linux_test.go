package lock

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/nftables"
	links "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The main goroutine keeps the main thread, so that no test enters a namespace with it: /proc/self is the main thread's.
func init() { runtime.LockOSThread() }

// pod is a network namespace whose one link, p0, is a TAP device: the tests are the rest of the world. Sending and receiving on it
// happen within the system call that causes them, so that a packet that is not there afterwards was not sent: nothing is waited for.
type pod struct {
	*Namespace
	// nft is a library's connection, for what the product never does.
	nft  *nftables.Conn
	path string
	tap  int
	work chan func()
	port uint16
	// hidden are sockets that a run keeps open until its end.
	open []int
}

var (
	pod4, gateway4 = ip("10.244.0.2"), ip("10.244.0.1")
	pod6, gateway6 = ip("fd00:244::2"), ip("fd00:244::1")
	// outside are public addresses.
	outside4, outside6 = ip("1.1.1.1"), ip("2606:4700::1111")
)

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
}

// newPod makes one, with addresses and default routes of both families.
func newPod(t testing.TB) *pod {
	t.Helper()
	needRoot(t)
	return start(t, func() error { return unix.Unshare(unix.CLONE_NEWNET) })
}

// newPodOf makes one whose network belongs to a user namespace, with users numbered from first.
func newPodOf(t testing.TB, first int) *pod {
	t.Helper()
	needRoot(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{helpEnv + "=hold"}
	all := []syscall.SysProcIDMap{{HostID: first, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, UidMappings: all, GidMappings: all}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(stdin.Close(), cmd.Wait()) })
	return start(t, func() error {
		ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Setns(ns, unix.CLONE_NEWNET), unix.Close(ns))
	})
}

func start(t testing.TB, enter func() error) *pod {
	t.Helper()
	p := &pod{work: make(chan func()), port: 20000}
	ready := make(chan error)
	go p.live(enter, ready)
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	n, err := Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.Namespace = n
	if p.nft, err = nftables.New(nftables.WithNetNSFd(int(n.file.Fd())), nftables.AsLasting()); err != nil {
		t.Fatal(err)
	}
	if err := p.track(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.do(p.closeAll)
		close(p.work)
		if err := errors.Join(n.Close(), p.nft.CloseLasting(), unix.Close(p.tap)); err != nil {
			t.Error(err)
		}
	})
	return p
}

// track has connections tracked before there is a lock, as they are where kube-proxy or the network plugin had a rule about them.
func (p *pod) track() error {
	if err := p.begin(); err != nil {
		return err
	}
	t := p.nft.AddTable(&nftables.Table{Name: "tracking", Family: nftables.TableFamilyINet})
	err := p.addChains(t, []chain{{"all", "output", 10, accept, []rule{{established}}}})
	return p.end("track", errors.Join(err, p.nft.Flush()))
}

// live is the pod's thread: it enters the namespace, does what it is given, and ends with its thread.
func (p *pod) live(enter func() error, ready chan<- error) {
	runtime.LockOSThread()
	p.path = fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
	err := enter()
	if err == nil {
		err = p.setUp()
	}
	ready <- err
	for f := range p.work {
		f()
	}
}

// do runs f on the pod's thread.
func (p *pod) do(f func()) {
	done := make(chan struct{})
	p.work <- func() { defer close(done); f() }
	<-done
}

func (p *pod) setUp() error {
	settings := map[string]string{
		"ipv4/ping_group_range": "0 2147483647", "ipv4/ip_forward": "1", "ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0",
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0", "ipv4/conf/all/send_redirects": "0",
		"ipv4/conf/default/send_redirects": "0", "ipv6/conf/default/accept_dad": "0", "ipv6/conf/all/forwarding": "1",
		// The kernel reports a group once and at once, not again while other probes are tried.
		"ipv4/igmp_qrv": "1", "ipv6/conf/default/mldv2_unsolicited_report_interval": "1",
		"ipv4/tcp_invalid_ratelimit": "0", "ipv4/tcp_challenge_ack_limit": "2147483647",
	}
	for name, value := range settings {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	if err := p.openTap(); err != nil {
		return err
	}
	lo, err := links.LinkByName("lo")
	if err != nil {
		return err
	}
	p0, err := links.LinkByName("p0")
	if err != nil {
		return err
	}
	err = errors.Join(links.LinkSetUp(lo), links.LinkSetHardwareAddr(p0, podMAC), links.LinkSetUp(p0),
		// Without a queue no other processor sends for this one, later.
		links.QdiscReplace(&links.GenericQdisc{QdiscType: "noqueue", QdiscAttrs: links.QdiscAttrs{
			LinkIndex: p0.Attrs().Index, Handle: links.MakeHandle(1, 0), Parent: links.HANDLE_ROOT,
		}}))
	for _, one := range []struct {
		addr, gateway netip.Addr
		bits          int
	}{{pod4, gateway4, 24}, {pod6, gateway6, 64}, {ip("fe80::2"), ip("fe80::1"), 64}} {
		to := &net.IPNet{IP: one.addr.AsSlice(), Mask: net.CIDRMask(one.bits, one.addr.BitLen())}
		err = errors.Join(err, links.AddrReplace(p0, &links.Addr{IPNet: to, Flags: unix.IFA_F_NODAD}),
			links.NeighSet(&links.Neigh{LinkIndex: p0.Attrs().Index, State: links.NUD_PERMANENT, IP: one.gateway.AsSlice(), HardwareAddr: gatewayMAC}))
		if !one.addr.IsLinkLocalUnicast() {
			err = errors.Join(err, links.RouteAdd(&links.Route{LinkIndex: p0.Attrs().Index, Gw: one.gateway.AsSlice()}))
		}
	}
	return err
}

// openTap makes p0 (Documentation/networking/tuntap.rst).
func (p *pod) openTap() error {
	tap, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq("p0")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	p.tap = tap
	return unix.IoctlIfreq(tap, unix.TUNSETIFF, request)
}

// user is who opens a socket. The rules see the user and group that its file was opened with: fsuid and fsgid, which are the
// thread's own and leave its capabilities for the network.
type user struct{ uid, gid int }

var (
	theSidecar = user{SidecarUID, SidecarGID}
	workload   = user{1000, 1000}
	root       = user{0, 0}
	wrongGroup = user{SidecarUID, 1000}
	wrongUser  = user{1000, SidecarGID}
)
