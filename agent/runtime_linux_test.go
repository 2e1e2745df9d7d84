package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxes answers on a CRI socket as containerd does.
type sandboxes struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	mu    sync.Mutex
	boxes map[string]*box
	asked atomic.Int64 // about boxes that are not answered for at once
	left  atomic.Int64 // of those, whose answers nobody waited for
	// failing: it lists nothing.
	failing atomic.Bool
}

// box is one sandbox.
type box struct {
	id, namespace, name, uid, netns string
	created                         time.Time
	annotations                     map[string]string
	host                            bool
	answer                          chan struct{} // nobody is told of it before this is closed; nil: at once
}

func startRuntime(socket string) *sandboxes {
	GinkgoHelper()
	r := &sandboxes{boxes: map[string]*box{}}
	Expect(os.MkdirAll(filepath.Dir(socket), 0o755)).To(Succeed())
	listener, err := net.Listen("unix", socket)
	Expect(err).NotTo(HaveOccurred())
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Stop)
	return r
}

func (r *sandboxes) add(b *box) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.boxes[b.id] = b
}

// silent adds governed sandboxes that the runtime answers nothing of.
func (m *machine) silent(count int) {
	answer := make(chan struct{})
	DeferCleanup(func() { close(answer) })
	for i := range count {
		m.runtime.add(&box{id: fmt.Sprintf("silent-%s-%d", m.name, i), namespace: m.governed, name: "silent", uid: "silent", created: time.Now(), answer: answer})
	}
}

func (r *sandboxes) remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.boxes, id)
}

func (r *sandboxes) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if r.failing.Load() {
		return nil, os.ErrDeadlineExceeded
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := &runtimeapi.ListPodSandboxResponse{}
	for _, b := range r.boxes {
		answer.Items = append(answer.Items, &runtimeapi.PodSandbox{
			Id: b.id, Metadata: &runtimeapi.PodSandboxMetadata{Name: b.name, Uid: b.uid, Namespace: b.namespace},
			State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: b.created.UnixNano(), Annotations: b.annotations,
		})
	}
	return answer, nil
}

func (r *sandboxes) PodSandboxStatus(ctx context.Context, asked *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	b := r.boxes[asked.PodSandboxId]
	r.mu.Unlock()
	if b == nil {
		return nil, os.ErrNotExist
	}
	if b.answer != nil {
		r.asked.Add(1)
		select {
		case <-b.answer:
		case <-ctx.Done():
			r.left.Add(1)
			return nil, ctx.Err()
		}
	}
	options := &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_POD}
	if b.host {
		options.Network = runtimeapi.NamespaceMode_NODE
	}
	spec := map[string]any{"linux": map[string]any{"namespaces": []any{map[string]string{"type": "network", "path": b.netns}}}}
	text, err := json.Marshal(map[string]any{"pid": 1, "runtimeSpec": spec})
	return &runtimeapi.PodSandboxStatusResponse{
		Status: &runtimeapi.PodSandboxStatus{Id: b.id, Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: options}}},
		Info:   map[string]string{"info": string(text)},
	}, err
}
