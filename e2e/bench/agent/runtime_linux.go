package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxes answers on a CRI socket as a runtime does.
type sandboxes struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	mu   sync.Mutex
	list []*runtimeapi.PodSandbox
	path map[string]string
}

func serveRuntime(socket string) (*sandboxes, *grpc.Server, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, nil, err
	}
	r, server := &sandboxes{path: map[string]string{}}, grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	return r, server, nil
}

// add shows a sandbox with as many annotations and labels as one has.
func (r *sandboxes) add(id, namespace, name, uid, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.path[id] = path
	r.list = append(r.list, &runtimeapi.PodSandbox{
		Id: id, Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Uid: uid, Namespace: namespace},
		State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
		Labels: map[string]string{
			"app": "agent", "pod-template-hash": "5d4f8c7b9", "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.uid": uid,
		},
		Annotations: map[string]string{"kubernetes.io/config.seen": time.Now().Format(time.RFC3339Nano), "kubernetes.io/config.source": "api"},
	})
}

func (r *sandboxes) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.ListPodSandboxResponse{Items: r.list}, nil
}

func (r *sandboxes) PodSandboxStatus(_ context.Context, asked *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	spec := map[string]any{"linux": map[string]any{"namespaces": []any{map[string]string{"type": "network", "path": r.path[asked.PodSandboxId]}}}}
	text, err := json.Marshal(map[string]any{"pid": 1, "runtimeSpec": spec})
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{Id: asked.PodSandboxId}, Info: map[string]string{"info": string(text)}}, err
}
