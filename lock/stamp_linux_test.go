package lock

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	links "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var testStamp = Stamp{Release: "v0.3.0", Rules: strings.Repeat("0123456789abcdef", 4), Beat: 4242 * time.Second}

// N10, N11.
func TestStampIsReadInsideAndOutside(t *testing.T) {
	p := newPod(t)
	if s, err := p.ReadStamp(); !errors.Is(err, ErrNotStamped) {
		t.Errorf("a fresh namespace: %v, %v; want ErrNotStamped", s, err)
	}
	longest := testStamp
	longest.Release = strings.Repeat("r", releaseMax)
	for _, s := range []Stamp{testStamp, longest, cutStamp(strings.Repeat("why ", 100), time.Minute)} {
		if err := p.WriteStamp(s); err != nil {
			t.Fatal(err)
		}
		outside, err := p.ReadStamp()
		if err != nil || outside != s {
			t.Errorf("outside: %v, %v; want %v", outside, err, s)
		}
		var inside Stamp
		p.do(func() { inside, err = ReadStamp() })
		if err != nil || inside != s {
			t.Errorf("inside: %v, %v; want %v", inside, err, s)
		}
	}
	if err := p.WriteStamp(Stamp{Release: "two words"}); err == nil {
		t.Error("a stamp that can't be read back was written")
	}
	p.do(func() {
		lo, err := links.LinkByName("lo")
		must(err)
		must(links.LinkSetAlias(lo, "somebody's own alias"))
	})
	if _, err := p.ReadStamp(); !errors.Is(err, ErrStamp) {
		t.Errorf("a foreign alias: %v, want ErrStamp", err)
	}
}

// Any process of the pod reads the stamp; none without CAP_NET_ADMIN over the namespace changes anything, not as root of a user
// namespace of its own either (N10, N11).
func TestAnUnprivilegedProcessReadsTheStampAndChangesNothing(t *testing.T) {
	p, record := lockedPod(t)
	if err := errors.Join(p.FirstLease(Lease), p.WriteStamp(testStamp)); err != nil {
		t.Fatal(err)
	}
	user := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: false}}
	inUserNS := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1000, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1000, Size: 1}},
	}
	for name, attr := range map[string]*syscall.SysProcAttr{"user 1000": user, "root of a user namespace": inUserNS} {
		answers := p.help(t, "unprivileged", attr)
		if answers["stamp"] != testStamp.String() {
			t.Errorf("%s read %q", name, answers["stamp"])
		}
		delete(answers, "stamp")
		if len(answers) < 9 {
			t.Errorf("%s tried too little: %v", name, answers)
		}
		for act, outcome := range answers {
			if outcome != "not permitted" {
				t.Errorf("%s: %s: %s, want not permitted", name, act, outcome)
			}
		}
	}
	if err := p.Verify(record); err != nil {
		t.Error(err)
	}
}

// unprivileged is a helper: it reads the stamp, and tries all that would change the lock or get round it.
func unprivileged() map[string]string {
	s, err := ReadStamp()
	answers := map[string]string{"stamp": s.String()}
	if err != nil {
		answers["stamp"] = err.Error()
	}
	lo := &links.GenericLink{LinkAttrs: links.LinkAttrs{Index: loopbackIndex, Name: "lo"}}
	answers["write the stamp"] = told(links.LinkSetAlias(lo, "holdfast/1 release=forged"))
	answers["write the stamp by sysfs"] = told(os.WriteFile("/sys/class/net/lo/ifalias", []byte("x"), 0))
	answers["set lo down"] = told(links.LinkSetDown(lo))
	answers["add a link"] = told(links.LinkAdd(&links.Veth{LinkAttrs: links.LinkAttrs{Name: "a"}, PeerName: "b"}))
	answers["flush the connections"] = told(links.ConntrackTableFlush(links.ConntrackTable))
	t := table()
	for act, change := range map[string]func(*nftables.Conn) error{
		"delete the lock": func(c *nftables.Conn) error { c.DelTable(t); return c.Flush() },
		"add a lease": func(c *nftables.Conn) error {
			return errors.Join(c.SetAddElements(aliveSet(t), []nftables.SetElement{{Key: familyIPv4.first}, {Key: familyIPv6.first}}), c.Flush())
		},
		"add another table": func(c *nftables.Conn) error {
			c.AddTable(&nftables.Table{Name: "x", Family: nftables.TableFamilyINet})
			return c.Flush()
		},
	} {
		c, err := nftables.New()
		if err == nil {
			err = change(c)
		}
		answers[act] = told(err)
	}
	for act, kind := range map[string][2]int{
		"open a raw socket": {unix.AF_INET, unix.IPPROTO_ICMP}, "open a raw socket of its own headers": {unix.AF_INET, unix.IPPROTO_RAW},
		"open a packet socket": {unix.AF_PACKET, 0},
	} {
		_, err := unix.Socket(kind[0], unix.SOCK_RAW, kind[1])
		answers[act] = told(err)
	}
	return answers
}

// hostUsers: false. The rules see users as the user namespace that owns the pod's network numbers them. (I1, N10)
func TestAPodWithUsersOfItsOwn(t *testing.T) {
	const shift = 1 << 20
	p := newPodOf(t, shift)
	rules, err := Build(testConfig)
	if err != nil {
		t.Fatal(err)
	}
	record, err := p.Apply(rules)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.FirstLease(Lease), p.WriteStamp(testStamp), p.Verify(record)); err != nil {
		t.Fatal(err)
	}
	r := &run{pod: p}
	p.do(func() {
		inside := user{shift + SidecarUID, shift + SidecarGID}
		if r.dial(inside, outside4, 443) == nil || r.dial(inside, outside6, 443) == nil {
			t.Error("the pod's own user 64128 can't connect")
		}
		for name, u := range map[string]user{"the host's 64128": theSidecar, "the pod's root": {shift, shift}, "the pod's 1000": {shift + 1000, shift + 1000}} {
			if r.dial(u, outside4, 443) != nil || r.dial(u, outside6, 443) != nil {
				t.Errorf("%s connects", name)
			}
		}
	})
	if err := p.Cut("a test"); err != nil {
		t.Error(err)
	}
}

// A process of the sidecar's user, and processes of others, as a container runs them. (I1, N10)
func TestProcessesOfOtherUsers(t *testing.T) {
	p := newPod(t)
	if err := p.lockAndLend(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		uid, gid uint32
		want     bool
	}{
		"the sidecar": {SidecarUID, SidecarGID, true}, "user 1000": {1000, 1000, false}, "root": {0, 0, false},
		"the sidecar's user in another group": {SidecarUID, 1000, false}, "another user in its group": {1000, SidecarGID, false},
	} {
		p.do(func() { p.sent() })
		p.help(t, "connect", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: test.uid, Gid: test.gid}})
		p.do(func() {
			got := slices.ContainsFunc(p.sent(), func(k packet) bool { return k.dst == outside4 && k.flags == syn })
			if got != test.want {
				t.Errorf("%s: a SYN came out: %v", name, got)
			}
		})
	}
}

// connect is a helper that begins a connection.
func connect() map[string]string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return map[string]string{"socket": err.Error()}
	}
	return map[string]string{"connect": told(unix.Connect(fd, sockaddr(outside4, 443)))}
}

// hold is a helper: it keeps its namespaces until its input ends.
func hold() map[string]string {
	runtime.UnlockOSThread()
	_, _ = bytes.NewBuffer(nil).ReadFrom(os.Stdin)
	return map[string]string{}
}
