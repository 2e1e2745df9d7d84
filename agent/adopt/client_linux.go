package adopt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Adopt asks the agent that listens on the socket to adopt a pod, and returns within Timeout. nil means that the pod has its lease.
// Else it is a *Refusal, or wraps ErrUnreachable, ErrAnswer, ErrPeer or ErrRequest.
func Adopt(ctx context.Context, socket string, r Request) error {
	e, err := r.Encode()
	if err != nil {
		return err
	}
	return e.Adopt(ctx, socket)
}

// Adopt is Adopt of what was encoded.
func (e Encoded) Adopt(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	dialed, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	conn := dialed.(*net.UnixConn)
	defer func() { _ = conn.Close() }() // all was read
	// A deadline in the past ends a read or write at once.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if err := checkPeer(conn); err != nil {
		return err
	}
	// The answer counts, not whether the question could be sent whole: a server may refuse before it has read it.
	sendErr := sendEncoded(conn, e.data, maxRequest)
	answer := receiveReply(conn)
	if errors.Is(answer, ErrUnreachable) {
		return errors.Join(answer, sendErr)
	}
	return answer
}
