package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// Repository is the name under which the product's image is loaded into the nodes.
const Repository = "localhost/holdfast"

// LoadProduct builds the product's image with the Dockerfile, loads it into every node, and returns its digest. With flags of go
// build it is another image, as the next release would be.
func (l *Lab) LoadProduct(ctx context.Context, flags ...string) (digest string, err error) {
	bin := filepath.Join(l.folder, "image", "bin")
	for _, name := range []string{"holdfast", "holdfast-cni"} {
		if err := l.build(ctx, "./cmd/"+name, filepath.Join(bin, name), flags...); err != nil {
			return "", err
		}
	}
	tag := Repository + ":" + l.Name // another cluster's may be built at the same time
	if _, err := l.run(ctx, "docker", "build", "--quiet", "--tag", tag, "--file", "Dockerfile", filepath.Dir(bin)); err != nil {
		return "", err
	}
	byDigest, err := l.run(ctx, l.kind, "load", "-name", l.Name, tag)
	if err != nil {
		return "", err
	}
	_, digest, found := strings.Cut(strings.TrimSpace(byDigest), "@")
	if !found {
		return "", fmt.Errorf("load image %s: no digest in %q", tag, byDigest)
	}
	return digest, nil
}
