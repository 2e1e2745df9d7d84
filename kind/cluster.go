package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-cni/holdfast/kind/command"
	"github.com/holdfast-cni/holdfast/kind/engine"
	"github.com/holdfast-cni/holdfast/kind/image"
	"github.com/holdfast-cni/holdfast/kind/parts"
)

// cluster is one kind cluster: what was asked for, and where it is. The exported fields are kept in its file, from before
// anything is made until everything is gone.
type cluster struct {
	Name    string
	Net     string
	Nodes   int
	Dual    bool
	Network bool // this run made Docker's network "kind", so it goes with the cluster

	registered, noTolerations, keep bool
	configMap                       string
	port                            int

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
	if _, err := os.Stat(c.file()); err == nil {
		return fmt.Errorf("the cluster %q is there already, perhaps left by a run that was killed: make kind-down removes it", c.Name)
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

func (c *cluster) file() string         { return filepath.Join(c.cache, "clusters", c.Name+".json") }
func (c *cluster) engineFolder() string { return filepath.Join(c.cache, "engine") }

// locked runs do while no other run makes or removes a cluster.
func (c *cluster) locked(do func() error) error {
	lock, err := os.OpenFile(filepath.Join(c.cache, "clusters", ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.New("another run is making or removing a cluster: wait for it, or end it with Ctrl-C")
	}
	return do()
}

func (c *cluster) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "kind: %3.0f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// up makes the cluster, or leaves nothing.
func (c *cluster) up(ctx context.Context) (err error) {
	if err := c.save(); err != nil {
		return err
	}
	defer func() {
		if err == nil || c.keep {
			return
		}
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		if c.engine != nil {
			c.say("removing what was made so far")
		}
		err = errors.Join(err, c.down(context.WithoutCancel(ctx)))
	}()
	if c.engine, err = engine.Find(ctx, c.engineFolder()); err != nil {
		return err
	}
	if err := c.tools(ctx); err != nil {
		return err
	}
	nodeImage, err := image.Node(ctx, c.engine, c.cache, func(text string) { c.say("%s", text) })
	if err != nil {
		return err
	}
	if err := c.create(ctx, nodeImage); err != nil {
		return err
	}
	if err := c.bringNetwork(ctx, c.Net); err != nil {
		return err
	}
	c.say("ready: kubectl --context kind-%s get nodes,pods -A", c.Name)
	return nil
}

// tools gets the programs that make and fill the cluster.
func (c *cluster) tools(ctx context.Context) (err error) {
	c.bin, err = parts.Get(ctx, "kind", "kubectl", "helm")
	return err
}

// create runs kind, and notes beforehand whether Docker's network is ours.
func (c *cluster) create(ctx context.Context, nodeImage string) error {
	clusters, err := c.kind(ctx, "get", "clusters")
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(clusters), c.Name) {
		c.keep = true // it is not ours
		return errors.Join(os.Remove(c.file()),
			fmt.Errorf("a kind cluster %q is there that this program did not make: kind delete cluster --name %s, or choose another -name", c.Name, c.Name))
	}
	_, missing := c.engine.Docker(ctx, "network", "inspect", "kind")
	c.Network = missing != nil
	if err := c.save(); err != nil {
		return err
	}
	args := []string{"create", "cluster", "--quiet", "--name", c.Name, "--config", "-", "--retain"}
	if nodeImage != "" {
		args = append(args, "--image", nodeImage)
	}
	cmd := c.engine.Command(ctx, c.bin["kind"], args...)
	cmd.Stdin = strings.NewReader(c.config())
	if err := command.Run(cmd); err != nil {
		return err
	}
	c.say("%d nodes registered", c.Nodes)
	if c.Nodes == 1 || c.registered {
		return nil // kind, or our own registration, left the control plane's taint away
	}
	_, err = c.kubectl(ctx, "taint", "node", c.Name+"-control-plane", "node-role.kubernetes.io/control-plane:NoSchedule-")
	return err
}

// down removes the cluster, and the engine if it is ours and this was its last cluster.
func (c *cluster) down(ctx context.Context) error {
	c.engine = engine.Running(ctx, c.engineFolder())
	if _, err := os.Stat(c.file()); errors.Is(err, fs.ErrNotExist) {
		return c.stopEngine()
	}
	if err := c.restore(); err != nil {
		return err
	}
	if c.engine != nil {
		if err := c.remove(ctx); err != nil {
			return err
		}
	}
	if err := os.Remove(c.file()); err != nil {
		return err
	}
	return c.stopEngine()
}

func (c *cluster) remove(ctx context.Context) error {
	if err := c.tools(ctx); err != nil {
		return err
	}
	if _, err := c.kind(ctx, "delete", "cluster", "--name", c.Name); err != nil {
		return err
	}
	if c.Network {
		if left, err := c.engine.Docker(ctx, "ps", "--all", "--quiet", "--filter", "network=kind"); err != nil || left != "" {
			return err // another cluster uses it
		}
		if _, err := c.engine.Docker(ctx, "network", "rm", "kind"); err != nil && !strings.Contains(err.Error(), "not found") {
			return err
		}
	}
	return nil
}

func (c *cluster) stopEngine() error {
	left, err := filepath.Glob(filepath.Join(c.cache, "clusters", "*.json"))
	if err != nil || len(left) > 0 {
		return err
	}
	return engine.Stop(c.engineFolder())
}

// load brings images onto every node: archives, or images that the engine has.
func (c *cluster) load(ctx context.Context, images []string) error {
	if err := c.attachTools(ctx); err != nil {
		return err
	}
	for _, name := range images {
		what := "docker-image"
		if strings.HasSuffix(name, ".tar") {
			what = "image-archive"
		}
		if _, err := c.kind(ctx, "load", what, name, "--name", c.Name); err != nil {
			return err
		}
	}
	return nil
}

// attach brings a network to a running cluster.
func (c *cluster) attach(ctx context.Context, network string) error {
	if err := c.attachTools(ctx); err != nil {
		return err
	}
	return c.bringNetwork(ctx, network)
}

// attachTools finds the engine and the tools of a cluster made earlier.
func (c *cluster) attachTools(ctx context.Context) error {
	if err := c.restore(); err != nil {
		return fmt.Errorf("there is no cluster %q: make one with make kind-up", c.Name)
	}
	if c.engine = engine.Running(ctx, c.engineFolder()); c.engine == nil {
		return fmt.Errorf("the engine of cluster %q has ended: make kind-down, then make kind-up", c.Name)
	}
	return c.tools(ctx)
}

func (c *cluster) env(ctx context.Context) error {
	if err := c.attachTools(ctx); err != nil {
		return err
	}
	if c.engine.Host != "" {
		fmt.Printf("export DOCKER_HOST=%s\n", c.engine.Host)
	}
	fmt.Printf("export HOLDFAST_CLUSTER=%s HOLDFAST_NET=%s\n", c.Name, c.Net)
	for _, name := range []string{"kubectl", "helm", "kind"} {
		fmt.Printf("export HOLDFAST_%s=%s\n", strings.ToUpper(name), c.bin[name])
	}
	return nil
}

// image makes the node image, and stops an engine that was started for it alone.
func (c *cluster) image(ctx context.Context) (err error) {
	if c.engine, err = engine.Find(ctx, c.engineFolder()); err != nil {
		return err
	}
	name, err := image.Node(ctx, c.engine, c.cache, func(text string) { c.say("%s", text) })
	if err == nil && name != "" {
		c.say("%s is ready", name)
	}
	return errors.Join(err, c.stopEngine())
}

func (c *cluster) kind(ctx context.Context, args ...string) (string, error) {
	return command.Output(c.engine.Command(ctx, c.bin["kind"], args...))
}

func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return command.Output(c.engine.Command(ctx, c.bin["kubectl"], append([]string{"--context", "kind-" + c.Name}, args...)...))
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
