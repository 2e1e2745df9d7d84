package adopt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// handleFor is shorter than Timeout, so that the plugin still hears the answer.
	handleFor = Timeout - time.Second
	// readFor bounds how long a client may take for its request, which it has at hand.
	readFor = 2 * time.Second
	// atOnce bounds the connections; a kubelet starts a few pods at a time.
	atOnce = 128
	// acceptAgain is the pause after an accept that failed, for want of file descriptors say.
	acceptAgain = 100 * time.Millisecond
)

// Server answers on the agent's socket.
type Server struct {
	// Handle adopts a pod. nil is yes; a *Refusal is told as it stands; another error is told as a refusal to be tried again. It is
	// called from several goroutines, also twice for one pod, and its context ends before the plugin gives up.
	Handle func(context.Context, Request) error
	// Failed hears of connections that came to nothing. It may be nil.
	Failed func(error)
}

// Serve answers until the context ends, closes l, and returns when every connection has ended. It returns an error if l was closed
// under it.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	slots := make(chan struct{}, atOnce)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on the agent's socket: %w", err)
		case err != nil:
			<-slots
			s.failed(fmt.Errorf("accept on the agent's socket: %w", err))
			select {
			case <-time.After(acceptAgain):
			case <-ctx.Done():
			}
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			if err := s.answer(ctx, conn); err != nil {
				s.failed(err)
			}
		})
	}
}

func (s Server) failed(err error) {
	if s.Failed != nil {
		s.Failed(err)
	}
}

func (s Server) answer(ctx context.Context, conn net.Conn) (err error) {
	defer func() { err = errors.Join(err, conn.Close()) }()
	peer, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%w: not a unix socket", ErrPeer)
	}
	if err := checkPeerOf(peer); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(readFor)); err != nil {
		return err
	}
	request, err := receiveRequest(conn)
	if err != nil {
		refused := &Refusal{Code: "BadRequest", Says: "the agent can't read the plugin's request", Fix: "install holdfast-cni and agent of one release"}
		return errors.Join(err, conn.SetDeadline(time.Now().Add(readFor)), sendReply(conn, reply{Refusal: refused}))
	}
	ctx, cancel := context.WithTimeout(ctx, handleFor)
	defer cancel()
	answer := answerTo(s.Handle(ctx, request))
	if err := conn.SetDeadline(time.Now().Add(readFor)); err != nil {
		return err
	}
	if err := sendReply(conn, answer); err != nil {
		return fmt.Errorf("answer for pod %s/%s: %w", request.Namespace, request.Name, err)
	}
	return nil
}

func answerTo(err error) reply {
	if err == nil {
		return reply{OK: true}
	}
	var told *Refusal
	if !errors.As(err, &told) || told == nil {
		told = &Refusal{Code: "Internal", Says: "the agent failed: " + err.Error(), Fix: "see the log of the agent on this node", Retry: true}
	}
	short := *told
	short.Code, short.Says, short.Fix = clip(short.Code), clip(short.Says), clip(short.Fix)
	return reply{Refusal: &short}
}

// clip keeps a text short enough for a reply: JSON writes a byte as six at most.
func clip(text string) string {
	const most = maxReply / 24
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
