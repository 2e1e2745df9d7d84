package install_test

//lint:file-ignore SA1019 libcni calls .conf files deprecated; runtimes still load them.

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/containernetworking/cni/libcni"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtime answers on a CRI socket as containerd does, with what the real libcni makes of the directory at that moment. The
// real containerd is asked in e2e.
type runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	confDir, binDir string

	mu      sync.Mutex
	name    string
	version string
	missed  bool // it does not see what changed
	hangs   bool
	answer  func() string // another cniconfig
	last    string
	asked   int
}

// startRuntime serves on the socket until the spec ends, or stop is called.
func startRuntime(socket, confDir, binDir string) (r *runtime, stop func()) {
	GinkgoHelper()
	r = &runtime{confDir: confDir, binDir: binDir, name: "containerd", version: "v2.4.2"}
	Expect(os.MkdirAll(filepath.Dir(socket), 0o755)).To(Succeed())
	listener, err := net.Listen("unix", socket)
	Expect(err).NotTo(HaveOccurred())
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Stop)
	return r, server.Stop
}

func (r *runtime) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *runtime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.VersionResponse{RuntimeName: r.name, RuntimeVersion: r.version, RuntimeApiVersion: "v1"}, nil
}

func (r *runtime) Status(ctx context.Context, _ *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	said, failure := r.last, "OK"
	if !r.missed || said == "" {
		var err error
		if said, err = r.load(); err != nil {
			failure = err.Error()
		}
		r.last = said
	}
	if r.answer != nil {
		said = r.answer()
	}
	ready := &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: failure == "OK", Message: failure}
	response := &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{ready}}}
	if r.name == "containerd" {
		response.Info = map[string]string{"cniconfig": said, "lastCNILoadStatus": failure}
	}
	return response, nil
}

type (
	plugin  struct{ Source string }
	network struct {
		IFName string
		Config struct {
			Name, CNIVersion string
			Plugins          []plugin
		}
	}
	loaded struct {
		PluginDirs    []string
		PluginConfDir string
		Networks      []network
	}
)

// load is what go-cni does: the first file by name, and no other.
func (r *runtime) load() (string, error) {
	out := loaded{PluginDirs: []string{r.binDir}, PluginConfDir: r.confDir}
	list, err := r.first()
	if err == nil {
		n := network{IFName: "eth0"}
		n.Config.Name, n.Config.CNIVersion = list.Name, list.CNIVersion
		for _, p := range list.Plugins {
			n.Config.Plugins = append(n.Config.Plugins, plugin{string(p.Bytes)})
		}
		out.Networks = []network{{IFName: "lo"}, n}
	}
	text, failed := json.Marshal(out)
	return string(text), errors.Join(err, failed)
}

func (r *runtime) first() (*libcni.NetworkConfigList, error) {
	files, err := libcni.ConfFiles(r.confDir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no network config found")
	}
	if filepath.Ext(files[0]) == ".conflist" {
		return libcni.NetworkConfFromFile(files[0])
	}
	conf, err := libcni.ConfFromFile(files[0])
	if err != nil {
		return nil, err
	}
	return libcni.ConfListFromConf(conf)
}
