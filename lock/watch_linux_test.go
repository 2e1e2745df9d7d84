package lock

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// A foreign change is heard whatever came right before it; what is the Namespace's own wakes nobody. (I1)
func TestMonitorHearsOthersAlone(t *testing.T) {
	p, _ := lockedPod(t)
	m, err := p.Monitor()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	other, err := Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	heard := func() {
		t.Helper()
		if c, err := m.Next(ctx); err != nil || c.PID == 0 || c.Process == "" || !c.Lock {
			t.Errorf("got %+v, %v; want another's change of the lock", c, err)
		}
	}
	if err := errors.Join(p.FirstLease(Lease), p.Renew(Lease), other.Renew(Lease)); err != nil {
		t.Fatal(err)
	}
	heard()
	if err := errors.Join(other.Renew(Lease), p.Renew(Lease), p.Renew(Lease), other.Renew(Lease), p.Renew(Lease)); err != nil {
		t.Fatal(err)
	}
	heard()
	heard()
	quiet(t, m, soon)
	cancel()
	if _, err := m.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// What touched the lock is told from what did not, though nothing of it be left, it take several datagrams to tell, or much else be
// changed right before. (I1)
func TestMonitorSaysWhatTouchedTheLock(t *testing.T) {
	lock := table()
	other := &nftables.Table{Name: "other", Family: nftables.TableFamilyINet}
	namesake := &nftables.Table{Name: Table, Family: nftables.TableFamilyIPv4}
	chainOf := func(t *nftables.Table) *nftables.Chain { return &nftables.Chain{Name: "more", Table: t} }
	for name, test := range map[string]struct {
		change         func(p *pod)
		touched, stays bool
	}{
		"another table":             {func(p *pod) { p.nft.AddTable(other); p.nft.AddChain(chainOf(other)) }, false, false},
		"another family's namesake": {func(p *pod) { p.nft.AddTable(namesake); p.nft.AddChain(chainOf(namesake)) }, false, false},
		"a chain":                   {func(p *pod) { p.nft.AddChain(chainOf(lock)) }, true, true},
		"a chain, undone at once":   {func(p *pod) { p.nft.AddChain(chainOf(lock)); p.nft.DelChain(chainOf(lock)) }, true, false},
		"an element, undone at once": {func(p *pod) {
			s := &nftables.Set{Table: lock, Name: "resolvers4", KeyType: nftables.TypeIPAddr}
			element := []nftables.SetElement{{Key: []byte{1, 1, 1, 1}}}
			must(errors.Join(p.nft.SetAddElements(s, element), p.nft.SetDeleteElements(s, element)))
		}, true, false},
		"a chain, and then much else": {func(p *pod) {
			p.nft.AddChain(chainOf(lock))
			p.nft.AddTable(other)
			s := &nftables.Set{Table: other, Name: "many", KeyType: nftables.TypeIPAddr}
			must(p.nft.AddSet(s, nil))
			for from := range 8 { // more than a socket keeps unless it is told to keep more
				elements := make([]nftables.SetElement, 1000)
				for i := range elements {
					elements[i].Key = binary.BigEndian.AppendUint32(nil, uint32(1000*from+i))
				}
				must(p.nft.SetAddElements(s, elements))
			}
		}, true, true},
		"a chain after much else": {func(p *pod) {
			for range 10 {
				p.nft.AddTable(other)
				must(p.nft.Flush())
				p.nft.DelTable(other)
				must(p.nft.Flush())
			}
			p.nft.AddChain(chainOf(lock))
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			p, record := lockedPod(t)
			m, err := p.Monitor()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = m.Close() }()
			must(p.begin())
			test.change(p)
			must(p.end("change", p.nft.Flush()))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if c, err := m.Next(ctx); err != nil || c.Lock != test.touched || c.PID == 0 || c.Process == "" {
				t.Errorf("heard %+v, %v; want that the lock was touched: %v", c, err, test.touched)
			}
			quiet(t, m, soon)
			if err := p.Verify(record); errors.Is(err, ErrDiffers) != test.stays {
				t.Errorf("verified: %v; want a difference: %v", err, test.stays)
			}
		})
	}
}

// That a lease runs out, and that the kernel frees its elements, at its leisure or in a later transaction, is nobody's change of the lock. (N13)
func TestMonitorHearsNoLeaseRunOut(t *testing.T) {
	p, _ := lockedPod(t)
	if err := p.FirstLease(20 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	m, err := p.Monitor()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	quiet(t, m, 2500*time.Millisecond) // the kernel frees them after a second (net/netfilter/nf_tables.h: nft_set_gc_interval)
	if _, err := p.Remaining(); !errors.Is(err, ErrExpired) {
		t.Fatalf("the lease is there: %v", err)
	}
	must(p.begin())
	p.nft.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyINet})
	must(p.end("change", p.nft.Flush()))
	if c, err := m.Next(t.Context()); err != nil || c.Lock {
		t.Errorf("heard %+v, %v; want a change of another table alone", c, err)
	}
}

// What others send to a Monitor is nothing to it, though it look like the kernel's error, the first part of something longer, or be too
// long to be any: what they change then is heard. (I1, N14)
func TestMonitorListensToTheKernelAlone(t *testing.T) {
	for name, forged := range map[string][]byte{
		"an error":        binary.NativeEndian.AppendUint32(header(nil, 4, unix.NLMSG_ERROR, 0, 0), ^uint32(0)), // -EPERM
		"a part":          append(header(nil, 4, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN, unix.NLM_F_MULTI, 0), 0, 0, 0, 0),
		"no message":      make([]byte, unix.SizeofNlMsghdr),
		"a long datagram": header(make([]byte, 2*datagram), 0, unix.NLMSG_NOOP, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := lockedPod(t)
			m, err := p.Monitor()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = m.Close() }()
			p.do(func() {
				s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
				must(err)
				must(unix.Sendto(s, forged, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: m.socket.port}))
				must(unix.Close(s))
			})
			must(p.begin())
			p.nft.AddChain(&nftables.Chain{Name: "more", Table: table()})
			must(p.end("change", p.nft.Flush()))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if c, err := m.Next(ctx); err != nil || !c.Lock {
				t.Errorf("heard %+v, %v; want that the lock was touched", c, err)
			}
		})
	}
}

// More than the kernel keeps for a listener is an error, after which all is to be verified: it can't be known what it was. (I1)
func TestMonitorSaysThatItMissedChanges(t *testing.T) {
	p, _ := lockedPod(t)
	m, err := p.Monitor()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	must(unix.SetsockoptInt(m.socket.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, leastBuffer))
	for range 100 {
		must(p.begin())
		p.nft.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyINet})
		p.nft.DelTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyINet})
		must(p.end("change", p.nft.Flush()))
	}
	if c, err := m.Next(t.Context()); !errors.Is(err, ErrOverrun) {
		t.Errorf("heard %+v, %v", c, err)
	}
}

// After an error a Namespace has another socket, and what that does wakes nobody either. Nobody else gets the address of a socket that
// is left out, and the one before is left out no more. (I1, N12)
func TestMonitorFollowsItsNamespaceToAnotherSocket(t *testing.T) {
	p, _ := lockedPod(t)
	m, err := p.Monitor()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.FirstLease(Lease); err != nil {
		t.Fatal(err)
	}
	first := p.netfilter.port
	fail := func() {
		t.Helper()
		if err := p.FirstLease(Lease); !errors.Is(err, ErrTicketUsed) || p.netfilter != nil {
			t.Fatalf("%v; the sockets are still open: %v", err, p.netfilter != nil)
		}
	}
	take := func(port uint32) (err error) {
		p.do(func() {
			s, socketErr := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
			must(socketErr)
			err = errors.Join(unix.Bind(s, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}), unix.Close(s))
		})
		return err
	}
	fail()
	if err := take(first); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("another gets the address that is left out: %v", err)
	}
	if err := p.Renew(Lease); err != nil {
		t.Fatal(err)
	}
	second := p.netfilter.port
	if second == first {
		t.Fatal("the second socket has the address of the first")
	}
	quiet(t, m, soon)
	fail()
	if err := take(second); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("another gets the address that is left out: %v", err)
	}
	if err := p.Renew(Lease); err != nil {
		t.Fatal(err)
	}
	quiet(t, m, soon)
	other, err := Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := other.Renew(Lease); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if c, err := m.Next(ctx); err != nil || !c.Lock {
		t.Errorf("heard %+v, %v; want another's change", c, err)
	}
	third := p.netfilter.port
	fail()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := take(third); err != nil {
		t.Errorf("the address is held for ever: %v", err)
	}
}

// soon is by when what was done before is heard.
const soon = 50 * time.Millisecond

// quiet makes sure that nothing is to be heard.
func quiet(t *testing.T, m *Monitor, d time.Duration) {
	t.Helper()
	must(m.file.SetReadDeadline(time.Now().Add(d)))
	if c, err := m.Next(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %+v, %v; want nothing", c, err)
	}
	must(m.file.SetReadDeadline(time.Time{}))
}

// I1.
func TestCountersSayWhy(t *testing.T) {
	p := newPod(t)
	if c, err := p.Counters(); err != nil || len(c) != 0 {
		t.Errorf("without a lock: %v, %v", c, err)
	}
	if err := p.lockAndLend(); err != nil {
		t.Fatal(err)
	}
	r := &run{pod: p}
	p.do(func() { r.asked(r.udp(workload, outside4, 53), "x") })
	if c, err := p.Counters(); err != nil || len(c) != 7 || c[CountOther] != (Counter{1, 29}) {
		t.Errorf("got %v, %v", c, err)
	}
}

func TestThisKernelIsSupported(t *testing.T) {
	needRoot(t)
	if err := Supported(); err != nil {
		t.Error(err)
	}
	for release, want := range map[string]bool{
		"5.10.0": true, "5.10": true, "6.18.44-fc-v782": true, "10.0": true, "5.9.16": false, "4.18.0-553.el8": false, "": false, "new": false,
	} {
		if atLeast(release, floorMajor, floorMinor) != want {
			t.Errorf("%q: not %v", release, want)
		}
	}
}
