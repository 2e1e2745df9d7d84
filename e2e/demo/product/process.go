package product

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Process is a running command. Stop must be called.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	log  lines
}

// Start runs the command in a process group of its own, so that Ctrl-C reaches whoever started it first.
func Start(path string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is what the process said last.
func (p *Process) Log() string { return p.log.String() }

// Exited reports whether the process has ended by itself.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop asks the process to end as a kubelet does, and kills it if it has not within the time. Stopping twice is stopping once.
func (p *Process) Stop(grace time.Duration) error {
	if !p.Exited() {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !p.Exited() {
			return fmt.Errorf("stop %s: %w", p.cmd.Path, err)
		}
	}
	select {
	case <-p.done:
	case <-time.After(grace):
		kill := p.cmd.Process.Kill()
		<-p.done
		return errors.Join(fmt.Errorf("stop %s: it was still there after %s", p.cmd.Path, grace), kill)
	}
	if p.err != nil {
		return fmt.Errorf("run %s: %w; it said last: %s", p.cmd.Path, p.err, p.Log())
	}
	return nil
}

// lines keeps the end of what is written to it.
type lines struct {
	mu   sync.Mutex
	text []byte
}

const kept = 8 << 10

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, data...)
	if extra := len(l.text) - kept; extra > 0 {
		l.text = append([]byte(nil), l.text[extra:]...)
	}
	return len(data), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.text))
}

var _ io.Writer = (*lines)(nil)
