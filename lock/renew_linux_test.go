package lock

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"unsafe"

	links "github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const renewals = 20

// What an agent does each 5 s for each pod: one transaction, one change of lo, and no other system call than for these (N12).
func TestARenewalIsOneTransactionAndAStampOneMessage(t *testing.T) {
	p, _ := lockedPod(t)
	if err := errors.Join(p.FirstLease(Lease), p.WriteStamp(testStamp)); err != nil {
		t.Fatal(err)
	}
	generation := func() (now uint32) {
		t.Helper()
		must(p.begin())
		now, err := p.generation()
		if err := p.end("look", err); err != nil {
			t.Fatal(err)
		}
		return now
	}
	updates, done := make(chan links.LinkUpdate, 10*renewals), make(chan struct{})
	defer close(done)
	p.do(func() { must(links.LinkSubscribe(updates, done)) })
	before := generation()
	answers := help(t, func(f func()) { f() }, "renew", nil, "LOCK_TEST_PATH="+p.outerPath())
	if after := generation(); after-before != renewals+1 {
		t.Errorf("%d transactions for %d renewals", after-before, renewals+1)
	}
	if answers["renewals"] != strconv.Itoa(renewals) || answers["stamp"] == "done" || answers["setns"] != "not permitted" {
		t.Errorf("where namespaces can't be entered and sockets not be opened: %v", answers)
	}
	p.do(func() {
		must(links.LinkSetMTU(&links.GenericLink{LinkAttrs: links.LinkAttrs{Index: loopbackIndex}}, 1500))
	})
	stamps := 0
	for update := range updates {
		if update.Attrs().MTU == 1500 {
			break
		}
		stamps++
	}
	if stamps != renewals+1 {
		t.Errorf("%d changes of lo for %d stamps", stamps, renewals+1)
	}
}

// renewConfined is a helper: it renews and stamps once, which opens what it needs, and then where it may open nothing more.
func renewConfined() map[string]string {
	n, err := Open(os.Getenv("LOCK_TEST_PATH"))
	if err != nil {
		return map[string]string{"open": err.Error()}
	}
	if err := errors.Join(n.Renew(Lease), n.WriteStamp(testStamp), refuseCalls(unix.SYS_SETNS, unix.SYS_UNSHARE, unix.SYS_SOCKET)); err != nil {
		return map[string]string{"confine": err.Error()}
	}
	answers := map[string]string{"setns": told(unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET))}
	for i := range renewals {
		if err := errors.Join(n.Renew(Lease), n.WriteStamp(testStamp)); err != nil {
			answers["renewal"] = err.Error()
			break
		}
		answers["renewals"] = strconv.Itoa(i + 1)
	}
	_, err = n.ReadStamp() // it does open a socket
	answers["stamp"] = told(err)
	return answers
}

// refuseCalls has the kernel refuse these system calls to every thread of this process: seccomp(2).
func refuseCalls(numbers ...uint32) error {
	program := []bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 4}}
	for _, number := range numbers {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: 1}, bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	raw, err := bpf.Assemble(append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}))
	if err != nil {
		return err
	}
	filter := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0]))}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
