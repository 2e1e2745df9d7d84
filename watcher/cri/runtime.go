package cri

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-cni/holdfast/watcher/node"
)

// Runtime is a connection to one, which is made again whenever it breaks. Safe for use by several goroutines.
type Runtime struct {
	socket string
	conn   *grpc.ClientConn
	client runtimeapi.RuntimeServiceClient

	mu      sync.Mutex
	version *runtimeapi.VersionResponse // of this connection
}

// largest is how many bytes an answer may have. The kubelet takes 16 MiB (kubernetes, cri-client/pkg/utils.go:
// maxMsgSize), of which pods' annotations can fill as much as their authors like: what the kubelet lives with, so does this.
const largest = 32 << 20

// Dial prepares a connection to a socket. Path is where this process reaches it, socket how the node calls it.
func Dial(path, socket string) (*Runtime, error) {
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)), grpc.WithIdleTimeout(0), grpc.WithAuthority("localhost")) // containerd and CRI-O take no path for an authority
	if err != nil {
		return nil, fmt.Errorf("dial the runtime at %s: %w", socket, err)
	}
	return &Runtime{socket: socket, conn: conn, client: runtimeapi.NewRuntimeServiceClient(conn)}, nil
}

// Close ends the connection.
func (r *Runtime) Close() error { return r.conn.Close() }

// Follow calls changed whenever the runtime went or came back, until the context ends.
func (r *Runtime) Follow(ctx context.Context, changed func()) {
	for state := r.conn.GetState(); ; state = r.conn.GetState() {
		if state == connectivity.Idle {
			r.conn.Connect()
		}
		if !r.conn.WaitForStateChange(ctx, state) {
			return
		}
		r.mu.Lock()
		r.version = nil // the one that comes back may be another
		r.mu.Unlock()
		changed()
	}
}

// Ask returns what the runtime says of itself. The context needs a deadline: a runtime may hang.
func (r *Runtime) Ask(ctx context.Context) (*node.Answer, error) {
	version, err := r.ask(ctx)
	if err != nil {
		return nil, r.failed("Version", err)
	}
	said, err := r.client.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return nil, r.failed("Status", err)
	}
	return read(r.socket, version, said), nil
}

func (r *Runtime) ask(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	r.mu.Lock()
	known := r.version
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	said, err := r.client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.version = said
	r.mu.Unlock()
	return said, nil
}

// failed leaves out gRPC's own words where there are better ones.
func (r *Runtime) failed(call string, err error) error {
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		err = errors.New("no answer in time")
	case codes.Unimplemented:
		err = errors.New("what answers there does not speak CRI v1")
	}
	return fmt.Errorf("%s of %s: %w", call, r.socket, err)
}
