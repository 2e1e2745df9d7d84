package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-cni/holdfast/kind/command"
	"github.com/holdfast-cni/holdfast/kind/engine"
	"github.com/holdfast-cni/holdfast/kind/parts"
)

// cluster is one kind cluster: what was asked for, and where it is. The exported fields are kept in its file, from before
// anything is made until everything is gone.
type cluster struct {
	Name       string
	Net        string
	Nodes      int
	Dual       bool
	Registered bool // its nodes register with our label and taint
	Own        bool // it is in an engine of our own
	Created    bool // kind was asked to make it
	Network    bool // this run made Docker's network "kind", so it goes with the cluster
	// Kubeconfig is the file that kind made for kubectl; empty if there was one, to which it only added a context.
	Kubeconfig string
	// Context is kubectl's current one from before, "" for none.
	Context string

	noTolerations, keep bool
	configMap           string
	port                int
	set                 []string // values of Cilium's chart

	cache  string
	engine *engine.Engine
	bin    map[string]string
	began  time.Time
}

const diskNeeded = 6 << 30 // node image, its copy in the engine, and what three nodes write

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)

// locate finds the cache folder.
func (c *cluster) locate() (err error) {
	c.began = time.Now()
	if !validName.MatchString(c.Name) {
		return fmt.Errorf("the name %q is not made of lower-case letters, digits and dashes: choose another with -name", c.Name)
	}
	if c.cache, err = parts.Cache(); err != nil {
		return fmt.Errorf("%w: set HOLDFAST_CACHE to a folder", err)
	}
	return os.MkdirAll(filepath.Join(c.cache, "clusters"), 0o755)
}

// validate checks everything that can be checked before anything is made.
func (c *cluster) validate() error {
	if _, ok := networks[c.Net]; !ok {
		return fmt.Errorf("unknown network %q: choose one of %s", c.Net, strings.Join(networkNames(), ", "))
	}
	if c.Nodes < 1 || c.Nodes > 3 {
		return fmt.Errorf("a cluster of %d nodes: choose 1, 2 or 3", c.Nodes)
	}
	if c.configMap != "" && c.configMap != "none" {
		if _, err := os.Stat(c.configMap); err != nil {
			return fmt.Errorf("-configmap: %w", err)
		}
	}
	if exists(c.file()) {
		return fmt.Errorf("the cluster %q is there already, perhaps left by a run that was killed: make kind-down NAME=%s removes it", c.Name, c.Name)
	}
	if c.port != 0 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", c.port))
		if err != nil {
			return fmt.Errorf("port %d is taken: choose another with -port, or leave it out for a free one", c.port)
		}
		listener.Close()
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(c.cache, &disk); err != nil {
		return fmt.Errorf("statfs %s: %w", c.cache, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < diskNeeded {
		return fmt.Errorf("%.1f GiB are free in %s and a cluster needs %d: make room, or set HOLDFAST_CACHE to a folder on another disk",
			float64(free)/(1<<30), c.cache, diskNeeded>>30)
	}
	return nil
}

func (c *cluster) file() string { return filepath.Join(c.cache, "clusters", c.Name+".json") }

func (c *cluster) engineFolder() string { return filepath.Join(c.cache, "engine") }

// locked runs do while no other run makes or removes a cluster, and waits until it may.
func (c *cluster) locked(ctx context.Context, do func() error) error {
	lock, err := os.OpenFile(filepath.Join(c.cache, "clusters", ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks
	for said := false; ; said = true {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return do()
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", lock.Name(), err)
		case !said:
			c.say("another run makes or removes a cluster: waiting for it")
		}
		select {
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-time.After(time.Second / 2):
		}
	}
}

func (c *cluster) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "kind: %3.0f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (c *cluster) kind(ctx context.Context, args ...string) (string, error) {
	return command.Output(c.engine.Command(ctx, c.bin["kind"], args...))
}

func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return command.Output(c.client(ctx, "kubectl", append([]string{"--context", "kind-" + c.Name}, args...)...))
}

// client returns a command that talks to the cluster; what it caches goes to our folder.
func (c *cluster) client(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := c.engine.Command(ctx, c.bin[name], args...)
	for _, variable := range []string{"KUBECACHEDIR", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		cmd.Env = append(cmd.Env, variable+"="+filepath.Join(c.cache, "clients"))
	}
	return cmd
}

func (c *cluster) save() error {
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(c.file(), content, 0o644)
}

func (c *cluster) restore() error {
	content, err := os.ReadFile(c.file())
	if err != nil {
		return err
	}
	return json.Unmarshal(content, c)
}
