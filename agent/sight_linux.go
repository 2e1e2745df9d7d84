package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-cni/holdfast/watcher/cri"
	"github.com/holdfast-cni/holdfast/watcher/node"
)

const (
	// askTime bounds one question to the runtime.
	askTime = 2 * time.Second
	// askAtOnce bounds how many questions it is asked at the same time.
	askAtOnce = 32
)

// sight is what the runtime shows of the node. It is the sweep's alone.
type sight struct {
	options *Options
	runtime *cri.Runtime
}

var errNoRuntime = errors.New("no runtime's socket is known; set chain.criSocket")

func (s *sight) connect() error {
	if s.runtime != nil {
		return nil
	}
	root, err := os.OpenRoot(s.options.HostRoot)
	if err != nil {
		return err
	}
	defer root.Close()
	socket := s.options.CRISocket
	if socket == "" {
		if socket, _ = node.FindSocket(root.FS()); socket == "" {
			return errNoRuntime
		}
	}
	path, err := node.Resolve(root.FS(), socket)
	if err != nil {
		path = strings.TrimPrefix(socket, "/") // it isn't there yet
	}
	s.runtime, err = cri.Dial(filepath.Join(s.options.HostRoot, path), socket)
	return err
}

func (s *sight) sandboxes(ctx context.Context) ([]cri.Sandbox, error) {
	if err := s.connect(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return s.runtime.Sandboxes(ctx)
}

func (s *sight) inside(ctx context.Context, id string) (cri.Inside, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return s.runtime.Inside(ctx, id)
}

func (s *sight) close() {
	if s.runtime != nil {
		_ = s.runtime.Close()
	}
}
