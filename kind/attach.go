package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-cni/holdfast/kind/engine"
	"github.com/holdfast-cni/holdfast/kind/image"
)

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
	if c.findEngine(ctx); c.engine == nil {
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
