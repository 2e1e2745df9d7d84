package agent

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// N12 N14: the next agent begins when nothing of this one is at work any more: a late renewal of this one's would be tampering to it.
func TestTheNextAgentWaitsForTheLastRenewal(t *testing.T) {
	clients, err := feed.NewClients(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	o := &Options{Node: "n", Namespace: "hf", Release: "hf", HostRoot: folder, Socket: filepath.Join(folder, "run/agent.sock"), States: filepath.Join(folder, "run/pods"), Memory: folder}
	a := newAgent(clients, o, nil)
	a.metrics = newMetrics(prometheus.NewRegistry(), a.state)
	ctx, stop := context.WithCancel(t.Context())
	atWork, ended := make(chan struct{}), make(chan error)
	a.group.Go(func() { <-atWork })
	go func() { ended <- a.run(ctx) }()
	until := func(answers bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			conn, err := net.Dial("unix", o.Socket)
			if err == nil {
				_ = conn.Close()
			}
			if (err == nil) == answers {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("not yet: it answers: %v", answers)
			}
		}
	}
	until(true)
	stop()
	until(false)
	if _, err := adopt.Listen(o.Socket); !errors.Is(err, adopt.ErrInUse) {
		t.Errorf("while it is at work: %v", err)
	}
	close(atWork)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	next, err := adopt.Listen(o.Socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Release(); err != nil {
		t.Error(err)
	}
}
