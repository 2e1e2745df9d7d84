package adopt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// Adopt asks the agent that listens on the socket to adopt a pod, and returns within Timeout, or by the context's deadline if that is
// earlier. nil means that the pod has its lease. Else it is a *Refusal, or wraps ErrUnreachable, ErrAnswer, ErrPeer or ErrRequest.
func Adopt(ctx context.Context, socket string, r Request) error {
	e, err := r.Encode()
	if err != nil {
		return err
	}
	return e.Adopt(ctx, socket)
}

// Adopt is Adopt of what was encoded.
func (e Encoded) Adopt(ctx context.Context, socket string) error {
	until := time.Now().Add(Timeout)
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(until) {
		until = earlier
	}
	c, err := connect(socket, until)
	if err != nil {
		return fmt.Errorf("%w: connect to %s: %w", ErrUnreachable, socket, err)
	}
	defer c.close()
	if err := checkPeer(c.fd); err != nil {
		return err
	}
	// The answer counts, not whether the question could be sent whole: a server may refuse before it has read it.
	sendErr := send(c, e.data, maxRequest)
	answer := receiveReply(c)
	if errors.Is(answer, ErrUnreachable) {
		return errors.Join(answer, sendErr)
	}
	return answer
}

// waiting is a unix socket that blocks, until a time at the latest. One of package net would do, but for what it costs a process that
// opens a single one: the poller with its thread is a twentieth of an ADD.
type waiting struct {
	fd    int
	until time.Time
}

func connect(socket string, until time.Time) (waiting, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return waiting{}, err
	}
	c := waiting{fd, until}
	// Where too many wait to be accepted, connect waits for as long as a write may (unix(7), SO_SNDTIMEO).
	_, err = c.try(syscall.SO_SNDTIMEO, func() (int, error) { return 0, syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}) })
	if err != nil {
		c.close()
	}
	return c, err
}

func (c waiting) close() { _ = syscall.Close(c.fd) } // all was read

func (c waiting) Read(b []byte) (int, error) {
	n, err := c.try(syscall.SO_RCVTIMEO, func() (int, error) { return syscall.Read(c.fd, b) })
	if n == 0 && err == nil && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

func (c waiting) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var some int
		some, err = c.try(syscall.SO_SNDTIMEO, func() (int, error) {
			return syscall.SendmsgN(c.fd, b[n:], nil, nil, syscall.MSG_NOSIGNAL)
		})
		n += some
	}
	return n, err
}

// try calls again what a signal interrupted, and lets each call wait for as long as is left.
func (c waiting) try(timeout int, call func() (int, error)) (int, error) {
	for {
		left := time.Until(c.until)
		if left < time.Microsecond { // the kernel takes 0 for no limit
			return 0, context.DeadlineExceeded
		}
		limit := syscall.NsecToTimeval(left.Nanoseconds())
		if err := syscall.SetsockoptTimeval(c.fd, syscall.SOL_SOCKET, timeout, &limit); err != nil {
			return 0, err
		}
		n, err := call()
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, context.DeadlineExceeded
		default:
			return max(n, 0), err
		}
	}
}
