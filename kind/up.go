package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-cni/holdfast/kind/command"
	"github.com/holdfast-cni/holdfast/kind/engine"
	"github.com/holdfast-cni/holdfast/kind/image"
	"github.com/holdfast-cni/holdfast/kind/parts"
)

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
		if c.Created {
			c.say("removing what was made so far")
		}
		err = errors.Join(err, c.down(context.WithoutCancel(ctx)))
	}()
	if c.engine, err = engine.Find(ctx, c.engineFolder()); err != nil {
		return err
	}
	c.Own = c.engine.Own != ""
	if !c.Own && networks[c.Net].values != "" && exists("/sys/fs/cgroup/unified/cgroup.procs") {
		return errors.New("with this Docker on cgroup v1, Cilium would attach its programs to the machine itself: " +
			"stop Docker and run this as root, which starts an engine of its own, or boot with cgroup v2")
	}
	if err := errors.Join(c.save(), c.tools(ctx)); err != nil {
		return err
	}
	nodeImage, err := image.Node(ctx, c.engine, c.cache, func(text string) { c.say("%s", text) })
	if err != nil {
		return err
	}
	if err := c.create(ctx, nodeImage); err != nil {
		return err
	}
	if nodeImage == "" {
		if err := c.complete(ctx); err != nil {
			return err
		}
	}
	if err := c.bringNetwork(ctx, c.Net); err != nil {
		return err
	}
	c.say("done: kubectl --context kind-%s get nodes,pods -A", c.Name)
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
	c.Created, c.Network = true, missing != nil
	if file := kubeconfig(); !exists(file) {
		c.Kubeconfig = file
	} else if current, err := command.Output(command.New(ctx, c.bin["kubectl"], "config", "current-context")); err == nil {
		c.Context = current
	}
	if err := c.save(); err != nil {
		return err
	}
	args := []string{"create", "cluster", "--quiet", "--name", c.Name, "--config", "-", "--retain"}
	if nodeImage != "" {
		args = append(args, "--image", nodeImage)
	}
	c.say("creating %d nodes", c.Nodes)
	cmd := c.engine.Command(ctx, c.bin["kind"], args...)
	cmd.Stdin = strings.NewReader(c.config())
	if err := command.Run(cmd); err != nil {
		return err
	}
	c.say("%d nodes registered", c.Nodes)
	if c.Nodes == 1 || c.Registered {
		return nil // kind, or our own registration, left the control plane's taint away
	}
	_, err = c.kubectl(ctx, "taint", "node", c.Name+"-control-plane", "node-role.kubernetes.io/control-plane:NoSchedule-")
	return err
}

// complete brings onto released nodes what only those made here have: the image of the test pods, and a CNI plugin.
func (c *cluster) complete(ctx context.Context) error {
	if err := image.LoadProbe(ctx, c.engine, c.cache); err != nil {
		return err
	}
	if _, err := c.kind(ctx, "load", "docker-image", image.Probe, "--name", c.Name); err != nil {
		return err
	}
	plugins, err := parts.Get(ctx, "bridge")
	if err != nil {
		return err
	}
	nodes, err := c.kind(ctx, "get", "nodes", "--name", c.Name)
	for _, node := range strings.Fields(nodes) {
		if _, err := c.engine.Docker(ctx, "cp", plugins["bridge"], node+":/opt/cni/bin/bridge"); err != nil {
			return err
		}
	}
	return err
}
