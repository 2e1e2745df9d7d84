package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-cni/holdfast/watcher/cri"
	"github.com/holdfast-cni/holdfast/watcher/feed"
)

// N18: pods that got past the chain are cut off though others, which are looked into at the same time, can't be yet.
func TestSandboxesThatAreHeldUpHoldUpNoOther(t *testing.T) {
	a, registry := sweeping(t)
	// Were they cut off one after the other, hardly ever would all of the stuck come last.
	const others, stuck = 20, 20 / 4
	place := func(id string) uint64 { return maphash.String(a.seed, id) % uint64(len(a.turns)) } // see agent.turn
	var found []*finding
	add := func(name, netns string, isStuck bool) {
		for n := 0; ; n++ {
			if id := fmt.Sprintf("%s-%d", name, n); (place(id) == place("stuck")) == isStuck {
				found = append(found, a.finds(id, netns))
				return
			}
		}
	}
	netns := unlocked(t).Path()
	for i := range others {
		if i%4 == 0 {
			add(fmt.Sprintf("stuck-%d", i), netns, true)
		}
		add(fmt.Sprintf("other-%d", i), netns, false)
	}
	give := a.turn("stuck")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.examineAll(t.Context(), found)
	}()
	cut := func() float64 { return count(t, registry, "holdfast_agent_cuts_total", string(PastChain)) }
	for end := time.Now().Add(time.Minute); cut() < others; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%v of %d were cut off", cut(), others)
			break
		}
	}
	for _, f := range found {
		if _, was := a.cuts.has(f.box.UID); was && place(f.box.ID) == place("stuck") {
			t.Errorf("%s is held up, and was cut off", f.box.ID)
		}
	}
	give()
	<-ended
	if cut() != others+stuck {
		t.Errorf("%v were cut off in the end", cut())
	}
}

// N18: no more existing pods than the limit are acted on, though all are looked into at once.
func TestTheLimitOfExistingPodsIsExact(t *testing.T) {
	a, _ := sweeping(t)
	a.options.Existing, a.options.ExistingLimit = Report, 7
	netns := unlocked(t)
	var found []*finding
	for i := range 60 {
		f := a.finds(fmt.Sprint(i), netns.Path())
		f.existed = true
		found = append(found, f)
	}
	for range 2 {
		a.examineAll(t.Context(), found)
		kinds := map[string]int{}
		for _, f := range found {
			kinds[f.kind]++
		}
		if kinds[kindExisting] != 7 || kinds[kindHeld] != 53 {
			t.Errorf("got %v", kinds)
		}
	}
}

// sweeping is an agent that can ask a runtime about sandboxes, and nobody else.
func sweeping(t *testing.T) (*sweeper, *prometheus.Registry) {
	t.Helper()
	clients, err := feed.NewClients(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	o := &Options{Node: "n", Namespace: "hf", Release: "hf", HostRoot: folder, CRISocket: "/s", Socket: filepath.Join(folder, "run/agent.sock"),
		States: filepath.Join(folder, "run/pods"), Memory: folder}
	s := &sweeper{agent: newAgent(clients, o, nil), runtime: &statuses{netns: map[string]string{}}}
	registry := prometheus.NewRegistry()
	s.metrics = newMetrics(registry, s.state)
	if err := s.remember(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.saving())
	listener, err := net.Listen("unix", filepath.Join(folder, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, s.runtime)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	if err := s.sight.connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.sight.close)
	return s, registry
}

type sweeper struct {
	*agent
	runtime *statuses
}

// finds is a governed sandbox that runs. The runtime knows it.
func (s *sweeper) finds(id, netns string) *finding {
	s.runtime.netns[id] = netns
	return &finding{box: cri.Sandbox{ID: id, Namespace: "n", Name: id, UID: id}}
}

// statuses says where sandboxes run.
type statuses struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	netns map[string]string
}

func (s *statuses) PodSandboxStatus(_ context.Context, asked *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	id := asked.GetPodSandboxId()
	spec := map[string]any{"linux": map[string]any{"namespaces": []any{map[string]string{"type": "network", "path": s.netns[id]}}}}
	text, err := json.Marshal(map[string]any{"pid": 1, "runtimeSpec": spec})
	return &runtimeapi.PodSandboxStatusResponse{
		Status: &runtimeapi.PodSandboxStatus{Id: id, Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{}}}},
		Info:   map[string]string{"info": string(text)},
	}, err
}
