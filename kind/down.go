package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-cni/holdfast/kind/command"
	"github.com/holdfast-cni/holdfast/kind/engine"
)

// down removes the cluster, and the engine if it is ours and this was its last cluster.
func (c *cluster) down(ctx context.Context) error {
	if !exists(c.file()) {
		return c.stopEngine()
	}
	if err := c.restore(); err != nil {
		return err
	}
	if c.Created {
		if err := c.remove(ctx); err != nil {
			return err
		}
	}
	if err := os.Remove(c.file()); err != nil {
		return err
	}
	return c.stopEngine()
}

// remove takes away what kind made.
func (c *cluster) remove(ctx context.Context) error {
	if err := c.tools(ctx); err != nil {
		return err
	}
	switch c.findEngine(ctx); {
	case c.engine == nil && c.Own: // it crashed, and the kernel took the cluster with it
		for _, entry := range []string{"delete-context", "delete-cluster", "delete-user"} {
			_ = command.Run(command.New(ctx, c.bin["kubectl"], "config", entry, "kind-"+c.Name))
		}
		return errors.Join(c.restoreContext(ctx), c.removeKubeconfig())
	case c.engine == nil:
		return fmt.Errorf("the engine that cluster %q runs in does not answer: start Docker, then make kind-down again", c.Name)
	}
	if err := c.deleteNodes(ctx); err != nil {
		return err
	}
	return errors.Join(c.restoreContext(ctx), c.removeKubeconfig(), c.removeNetwork(ctx))
}

// deleteNodes tries again where Docker gave up: it waits ten seconds for a container that it has killed, and a node with many processes
// may take longer to die on a busy machine, or have a frozen one.
func (c *cluster) deleteNodes(ctx context.Context) error {
	for tries := 1; ; tries++ {
		_, err := c.kind(ctx, "delete", "cluster", "--name", c.Name)
		if err == nil || tries == 4 || ctx.Err() != nil {
			return err
		}
		c.say("deleting again what is still there: %v", err)
		engine.Thaw(c.engineFolder())
	}
}

// restoreContext gives kubectl back the context it had: kind takes it for the new cluster and leaves none behind. What the
// user chose since then stays.
func (c *cluster) restoreContext(ctx context.Context) error {
	if c.Context == "" {
		return nil
	}
	current, _ := command.Output(command.New(ctx, c.bin["kubectl"], "config", "current-context"))
	if current != "" && current != "kind-"+c.Name {
		return nil
	}
	return command.Run(command.New(ctx, c.bin["kubectl"], "config", "use-context", c.Context))
}

// findEngine finds the engine of a cluster made earlier; c.engine is nil if it has ended.
func (c *cluster) findEngine(ctx context.Context) {
	c.engine = engine.Running(ctx, c.engineFolder())
	if c.engine != nil && c.Own != (c.engine.Own != "") {
		c.engine = nil
	}
}

// removeNetwork removes Docker's network for kind, if this cluster brought it and no other uses it.
func (c *cluster) removeNetwork(ctx context.Context) error {
	if !c.Network {
		return nil
	}
	if left, err := c.engine.Docker(ctx, "ps", "--all", "--quiet", "--filter", "network=kind"); err != nil || left != "" {
		return err
	}
	_, err := c.engine.Docker(ctx, "network", "rm", "kind")
	return err
}

// removeKubeconfig removes the empty file that kind leaves, where there was none before.
func (c *cluster) removeKubeconfig() error {
	if c.Kubeconfig == "" {
		return nil
	}
	content, err := os.ReadFile(c.Kubeconfig)
	if strings.Contains(string(content), "server:") {
		return nil // it names another cluster by now
	}
	if err == nil {
		err = os.Remove(c.Kubeconfig)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(filepath.Dir(c.Kubeconfig)) // unless there is more in it
	return nil
}

// kubeconfig returns the file that kind writes to: the first that kubectl reads.
func kubeconfig() string {
	if list := filepath.SplitList(os.Getenv("KUBECONFIG")); len(list) > 0 {
		return list[0]
	}
	return filepath.Join(os.Getenv("HOME"), ".kube", "config")
}

func (c *cluster) stopEngine() error {
	left, err := filepath.Glob(filepath.Join(c.cache, "clusters", "*.json"))
	if err != nil || len(left) > 0 {
		return err
	}
	return engine.Stop(c.engineFolder())
}
