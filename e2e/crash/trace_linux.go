package crash

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Process is what is to run.
type Process struct {
	// Arm is the built program of that name in this folder.
	Arm       string
	Args, Env []string
	Output    *os.File
	// Dirs are those whose changes are of interest, as absolute paths without links.
	Dirs []string
}

// Stop is a system call that changes something in the directories, before it runs or after.
type Stop struct {
	Call  int // from 1, in the order in which they begin
	After bool
	Name  string // such as renameat
	Path  string // that it is about
	Op    Op     // what it did; only after, and only where it succeeded
	Err   error  // why it did not
}

// Action is what becomes of the process at a stop.
type Action struct {
	// Kill it, with SIGKILL, before it goes on.
	Kill bool
	// Fail the call with this error, without running it; only before, and only where CanFail.
	Fail syscall.Errno
}

// Trace runs the process and asks visit at each stop. It returns when the process has ended or was killed, by visit or
// because the context ended; that is no error. Children of the process are not asked about, and are killed with it.
func Trace(ctx context.Context, p Process, visit func(Stop) Action) error {
	// The kernel takes orders from the thread that traces alone. It is left locked, so that it ends with this goroutine.
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- trace(ctx, p, visit)
	}()
	return <-result
}

type tracer struct {
	process Process
	visit   func(Stop) Action
	pid     int
	calls   int
	known   map[int]bool  // threads that have made their first stop
	within  map[int]*call // calls of interest that have begun
}

func trace(ctx context.Context, p Process, visit func(Stop) Action) error {
	out := p.Output.Fd()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(p.Arm, append([]string{p.Arm}, p.Args...), &syscall.ProcAttr{
		Env: p.Env, Files: []uintptr{null.Fd(), out, out}, Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Args[0], err)
	}
	kill := func() { _ = syscall.Kill(-pid, syscall.SIGKILL) } // it may be gone
	defer context.AfterFunc(ctx, kill)()
	t := &tracer{process: p, visit: visit, pid: pid, known: map[int]bool{}, within: map[int]*call{}}
	if err := t.run(kill); err != nil {
		kill()
		t.reap()
		if ctx.Err() == nil { // else it was killed in the middle of a stop
			return fmt.Errorf("trace %s: %w", p.Args[0], err)
		}
	}
	return nil
}

func (t *tracer) run(kill func()) error {
	var status syscall.WaitStatus
	if _, err := wait(t.pid, &status); err != nil {
		return err
	}
	if err := syscall.PtraceSetOptions(t.pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACESECCOMP|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACEFORK|unix.PTRACE_O_TRACEVFORK|unix.PTRACE_O_EXITKILL); err != nil {
		return fmt.Errorf("ptrace: %w", err)
	}
	t.known[t.pid] = true
	t.resume(t.pid, 0)
	for {
		// Waited for by group: other children of this process are others' to wait for.
		thread, err := wait(-t.pid, &status)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return nil
		case err != nil:
			return err
		case status.Exited() || status.Signaled():
			if thread == t.pid {
				return nil
			}
			continue
		case !status.Stopped():
			continue
		}
		action, signal, err := t.stopped(thread, status)
		if err != nil {
			return err
		}
		if action.Kill {
			kill()
			t.reap()
			return nil
		}
		if action.Fail != 0 {
			if err := skipCall(thread); err != nil {
				return err
			}
		}
		t.resume(thread, signal)
	}
}

// stopped handles one stop of a thread, and says which signal it is to get.
func (t *tracer) stopped(thread int, status syscall.WaitStatus) (Action, int, error) {
	first := !t.known[thread]
	t.known[thread] = true
	switch signal := status.StopSignal(); {
	case signal == syscall.SIGTRAP|0x80:
		action, err := t.end(thread)
		return action, 0, err
	case signal == syscall.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		action, err := t.begin(thread)
		return action, 0, err
	case signal == syscall.SIGTRAP: // another event
	case first && signal == syscall.SIGSTOP:
	default:
		return Action{}, int(signal), nil
	}
	return Action{}, 0, nil
}

// begin handles a system call that is about to run. Children have the filter too, and without a tracer their calls would fail.
func (t *tracer) begin(thread int) (Action, error) {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", t.pid, thread)); err != nil {
		return Action{}, nil // a child's
	}
	info, err := callInfo(thread)
	if err != nil {
		return Action{}, err
	}
	c := t.decode(info)
	if c == nil {
		return Action{}, nil
	}
	t.calls++
	c.number = t.calls
	t.within[thread] = c
	action := t.visit(Stop{Call: c.number, Name: c.name, Path: c.path})
	c.fail = action.Fail
	return action, nil
}

// end handles one that has run.
func (t *tracer) end(thread int) (Action, error) {
	c := t.within[thread]
	if c == nil {
		return Action{}, nil
	}
	delete(t.within, thread)
	info, err := callInfo(thread)
	if err != nil {
		return Action{}, err
	}
	stop := Stop{Call: c.number, After: true, Name: c.name, Path: c.path}
	result := int64(info.value)
	if c.fail != 0 {
		if err := setResult(thread, -int64(c.fail)); err != nil {
			return Action{}, err
		}
		result = -int64(c.fail)
	}
	if result < 0 {
		stop.Err = syscall.Errno(-result)
	} else if stop.Op, err = t.done(c); err != nil {
		return Action{}, err
	}
	return t.visit(stop), nil
}

// reap waits until the whole group is gone.
func (t *tracer) reap() {
	var status syscall.WaitStatus
	for {
		thread, err := wait(-t.pid, &status)
		if err != nil {
			return
		}
		if status.Stopped() {
			t.resume(thread, int(syscall.SIGKILL))
		}
	}
}

func wait(pid int, status *syscall.WaitStatus) (int, error) {
	for {
		thread, err := syscall.Wait4(pid, status, syscall.WALL, nil)
		if !errors.Is(err, syscall.EINTR) {
			return thread, err
		}
	}
}

// resume lets a thread run to the end of the call that it is in, or to its next one of interest. An error means that it is
// gone, which the next wait tells.
func (t *tracer) resume(thread, signal int) {
	if t.within[thread] != nil {
		_ = syscall.PtraceSyscall(thread, signal)
	} else {
		_ = syscall.PtraceCont(thread, signal)
	}
}

// What PTRACE_GET_SYSCALL_INFO tells (ptrace(2), Linux 5.3).
const ptraceGetSyscallInfo = 0x420e

type callState struct {
	value uint64 // the call's number, or its result
	args  [6]uint64
}

func callInfo(thread int) (callState, error) {
	var raw [88]byte
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, ptraceGetSyscallInfo, uintptr(thread), uintptr(len(raw)), uintptr(unsafe.Pointer(&raw)), 0, 0)
	if errno != 0 {
		return callState{}, fmt.Errorf("ptrace: %w", errno)
	}
	s := callState{value: binary.NativeEndian.Uint64(raw[24:])}
	for i := range s.args {
		s.args[i] = binary.NativeEndian.Uint64(raw[32+8*i:])
	}
	return s, nil
}
