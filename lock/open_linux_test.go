package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// I2.
func TestOpenRefusesWhatIsNoPodsNamespace(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	file, fifo, link := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("x"), 0o600), unix.Mkfifo(fifo, 0o600), os.Symlink("/proc/self/ns/net", link)); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(dir, "mounted")
	if err := errors.Join(os.WriteFile(mounted, nil, 0o600), unix.Mount("/proc/self/ns/net", mounted, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
	for _, test := range []struct {
		path string
		want error
	}{
		{file, ErrNotNamespace}, {fifo, ErrNotNamespace}, {dir, ErrNotNamespace}, {"/dev/null", ErrNotNamespace},
		{"/proc/self/ns/uts", ErrNotNamespace}, {"/proc/self/ns/user", ErrNotNamespace}, {"/proc/self/status", ErrNotNamespace},
		{filepath.Join(dir, "none"), ErrGone}, {"", ErrGone}, {"/proc/4194305/ns/net", ErrGone}, {file + "/net", ErrGone},
		{"/proc/self/ns/net", ErrHostNamespace}, {link, ErrHostNamespace}, {mounted, ErrHostNamespace},
		{fmt.Sprintf("/proc/%d/ns/net", os.Getpid()), ErrHostNamespace},
	} {
		n, err := Open(test.path)
		if !errors.Is(err, test.want) {
			t.Errorf("%q: got %v, want %v", test.path, err, test.want)
		}
		if n != nil {
			t.Errorf("%q: was opened", test.path)
		}
	}
	if _, err := Open("with\x00nul"); err == nil {
		t.Error("a path with a NUL was opened")
	}
}

// A process that is in another namespace itself knows the host's by process 1, shown or hidden. So nothing can be aimed at it: every
// operation takes a Namespace, and only Open makes one. (I2)
func TestTheHostIsRefusedFromElsewhereToo(t *testing.T) {
	p := newPod(t)
	answers := p.help(t, "host", nil, fmt.Sprintf("LOCK_TEST_PATH=/proc/%d/ns/net", os.Getpid()))
	for act, outcome := range answers {
		if outcome != "host" {
			t.Errorf("%s: %s", act, outcome)
		}
	}
	if len(answers) != 3 {
		t.Errorf("tried %v", answers)
	}
}

// openHost is a helper in a pod.
func openHost() map[string]string {
	host := os.Getenv("LOCK_TEST_PATH")
	_, err := Open(host)
	answers := map[string]string{"open": told(err)}
	_, err = Open("/proc/self/ns/net")
	answers["open its own"] = told(err)
	// What is left when process 1 hides its namespace, whether it does here or not.
	file, err := openNamespace(host)
	if err != nil {
		return answers
	}
	n := &Namespace{path: host, file: file}
	if n.id, err = identify(file); err == nil || errors.Is(err, errHidden) || errors.Is(err, ErrHostNamespace) {
		if err = n.connect(); err == nil {
			err = inside(n.file, refuseNeighbour)
		}
	}
	answers["look among process 1's sockets"] = told(err)
	return answers
}

func TestANamespaceThatIsNoNeighbour(t *testing.T) {
	p := newPod(t)
	if err := inside(p.file, refuseNeighbour); err != nil {
		t.Error(err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(p.path, &stat); err != nil || p.ID() != (ID{stat.Dev, stat.Ino}) || p.Path() != p.path {
		t.Errorf("%v at %s (%v)", p.ID(), p.Path(), err)
	}
}

// A socket of this process's own namespace is not taken for one of the pod's. (I2)
func TestASocketElsewhereIsRefused(t *testing.T) {
	p := newPod(t)
	elsewhere, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(elsewhere) }()
	if err := isInside(elsewhere, p.ID()); !errors.Is(err, ErrHostNamespace) {
		t.Errorf("got %v, want ErrHostNamespace", err)
	}
	if err := isInside(p.netfilter.fd, p.ID()); err != nil {
		t.Error(err)
	}
}

// closedInput is a helper without a standard input.
func closedInput() map[string]string {
	if err := unix.Close(0); err != nil {
		return map[string]string{"close": err.Error()}
	}
	n, err := Open(os.Getenv("LOCK_TEST_PATH"))
	if err != nil {
		return map[string]string{"open": err.Error()}
	}
	return map[string]string{"open": "done", "fd above 2": fmt.Sprint(n.file.Fd() > 2), "lease": told(n.Renew(Lease))}
}

func TestOpenWithoutAStandardInput(t *testing.T) {
	p, _ := lockedPod(t)
	answers := help(t, func(f func()) { f() }, "closed input", nil, "LOCK_TEST_PATH="+p.outerPath())
	if answers["open"] != "done" || answers["fd above 2"] != "true" || answers["lease"] != "expired" {
		t.Error(answers)
	}
}

// I2.
func TestAClosedNamespaceFails(t *testing.T) {
	p := newPod(t)
	n, err := Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.Renew(Lease); err == nil {
		t.Error("a closed namespace was renewed")
	}
}
