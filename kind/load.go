package main

import (
	"context"
	"fmt"
	"strings"
)

// load brings images onto every node, archives by way of the engine, and prints the digest by which pods can name each.
func (c *cluster) load(ctx context.Context, images []string) error {
	if err := c.attachTools(ctx); err != nil {
		return err
	}
	for _, name := range images {
		if strings.HasSuffix(name, ".tar") {
			output, err := c.engine.Docker(ctx, "load", "--quiet", "--input", name)
			if err != nil {
				return err
			}
			name = strings.TrimSpace(strings.TrimPrefix(output, "Loaded image:"))
		}
		if _, err := c.kind(ctx, "load", "docker-image", name, "--name", c.Name); err != nil {
			return err
		}
		byDigest, err := c.addDigest(ctx, qualified(name))
		if err != nil {
			return err
		}
		fmt.Println(byDigest)
	}
	return nil
}

// An image that was pulled can be named by its digest; one that was loaded only if containerd is given that name too.
const addDigest = `digest=$(ctr -n k8s.io images ls "name==$0" | awk 'NR == 2 { print $3 }')
ctr -n k8s.io images tag --force "$0" "${0%:*}@$digest"`

func (c *cluster) addDigest(ctx context.Context, name string) (string, error) {
	nodes, err := c.kind(ctx, "get", "nodes", "--name", c.Name)
	if err != nil {
		return "", err
	}
	byDigest := ""
	for _, node := range strings.Fields(nodes) {
		if byDigest, err = c.engine.Docker(ctx, "exec", node, "sh", "-ec", addDigest, name); err != nil {
			return "", err
		}
	}
	return byDigest, nil
}

// qualified returns the full name of an image, as containerd keeps it.
func qualified(name string) string {
	if i := strings.LastIndexAny(name, ":/"); i < 0 || name[i] == '/' {
		name += ":latest"
	}
	registry, _, found := strings.Cut(name, "/")
	switch {
	case !found:
		return "docker.io/library/" + name
	case strings.ContainsAny(registry, ".:") || registry == "localhost":
		return name
	}
	return "docker.io/" + name
}
