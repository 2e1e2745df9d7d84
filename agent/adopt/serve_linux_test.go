package adopt

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve runs a server until the test ends, and returns its socket and what it failed at.
func serve(t *testing.T, handle func(context.Context, Request) error) (socket string, failures func() []error) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "agent.sock")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var failed []error
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- Server{Handle: handle, Failed: func(err error) { mu.Lock(); defer mu.Unlock(); failed = append(failed, err) }}.Serve(ctx, l)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return socket, func() []error { mu.Lock(); defer mu.Unlock(); return failed }
}

// N8.
func TestAgentAnswers(t *testing.T) {
	tests := map[string]struct {
		answer error
		check  func(error) bool
	}{
		"yes": {nil, func(err error) bool { return err == nil }},
		"no": {&Refusal{Code: "ContractBroken", Says: "a", Fix: "b"}, func(err error) bool {
			var r *Refusal
			return errors.As(err, &r) && *r == Refusal{Code: "ContractBroken", Says: "a", Fix: "b"}
		}},
		"failed": {errors.New("etcd"), func(err error) bool {
			var r *Refusal
			return errors.As(err, &r) && r.Retry && strings.Contains(r.Says, "etcd")
		}},
		"at great length": {&Refusal{Code: "A", Says: strings.Repeat("\x01", 1<<20)}, func(err error) bool {
			var r *Refusal
			return errors.As(err, &r) && r.Code == "A"
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			socket, _ := serve(t, func(_ context.Context, r Request) error {
				if r.UID != "u" {
					t.Errorf("got %+v", r)
				}
				return test.answer
			})
			if err := Adopt(t.Context(), socket, aRequest()); !test.check(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// I2, I1: a client that hangs, and one that lies, keep no other from its answer.
func TestOneBadClientBlocksNobody(t *testing.T) {
	socket, failures := serve(t, func(context.Context, Request) error { return nil })
	for range atOnce / 2 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	liar, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := liar.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	var told *Refusal
	if err := receiveReply(liar); !errors.As(err, &told) || told.Code != "BadRequest" {
		t.Errorf("the liar got %v", err)
	}
	began := time.Now()
	if err := Adopt(t.Context(), socket, aRequest()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > readFor {
		t.Errorf("took %v", took)
	}
	// The server answers the liar before it tells of it.
	for end := time.Now().Add(readFor); len(failures()) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := failures(); len(got) != 1 || !errors.Is(got[0], ErrRequest) {
		t.Errorf("failures: %v", got)
	}
}

// I2: nothing that listens there can hang the plugin.
func TestSocketsThatLieOrHang(t *testing.T) {
	tests := map[string]struct {
		does func(net.Conn)
		want error
	}{
		"hangs":       {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, ErrUnreachable},
		"hangs up":    {func(net.Conn) {}, ErrUnreachable},
		"drips":       {drip, ErrUnreachable},
		"lies":        {func(c net.Conn) { _, _ = c.Write([]byte("\x00\x00\x00\x02{}")); _, _ = io.Copy(io.Discard, c) }, ErrAnswer},
		"never stops": {func(c net.Conn) { _, _ = io.Copy(c, endless{}) }, ErrAnswer},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "agent.sock")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				if conn, err := l.Accept(); err == nil {
					test.does(conn)
					_ = conn.Close()
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			if err := Adopt(ctx, socket, aRequest()); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func drip(c net.Conn) {
	for _, b := range append([]byte{0, 0, 1, 0}, make([]byte, 256)...) {
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, "yes and yes and "), nil }

// I1.
func TestNobodyListens(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	if err := Adopt(t.Context(), socket, aRequest()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("no socket: %v", err)
	}
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Adopt(t.Context(), socket, aRequest()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a dead agent's socket: %v", err)
	}
}

// N12.
func TestSocketIsReplacedOnlyWhenItsAgentIsDead(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "holdfast", "agent.sock")
	first, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(socket)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v", info.Mode(), err)
	}
	if _, err := Listen(socket); !errors.Is(err, ErrInUse) {
		t.Errorf("a second agent: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(socket); !errors.Is(err, ErrInUse) {
		t.Errorf("a second agent, while the first is still at work: %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(socket)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
}

// N14: nobody but root is heard.
func TestPeersThatAreNotRootsAreRefused(t *testing.T) {
	if err := permit(1000, 0); !errors.Is(err, ErrPeer) {
		t.Errorf("uid 1000: %v", err)
	}
	if err := permit(4294967295, -1); !errors.Is(err, ErrPeer) {
		t.Errorf("a uid that is none: %v", err)
	}
	if err := permit(0, 0); err != nil {
		t.Error(err)
	}
}

// N12.
func TestServeEndsWithItsListener(t *testing.T) {
	l, err := Listen(filepath.Join(t.TempDir(), "agent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (Server{}).Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
