package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-cni/holdfast/kind/command"
)

const preloadConfig = `version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"]

[grpc]
  address = %q
`

// preload puts the pictures into root, a containerd's /var/lib/containerd, by a containerd that runs for just that.
func preload(ctx context.Context, bin map[string]string, work, root string, pictures []picture) (err error) {
	socket, config := filepath.Join(work, "containerd.sock"), filepath.Join(work, "containerd.toml")
	content := fmt.Sprintf(preloadConfig, root, filepath.Join(work, "state"), socket)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	containerd := command.New(running, bin["containerd"], "--config", config)
	go func() { ended <- command.Run(containerd) }()
	defer func() {
		stop()
		<-ended
	}()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if err = command.Run(command.New(ctx, bin["ctr"], "--address", socket, "version")); err == nil {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("preload images: %w", err)
		}
	}
	for _, p := range pictures {
		load := command.New(ctx, bin["ctr"], "--address", socket, "--namespace", "k8s.io",
			"images", "import", "--no-unpack", "--digests", "--label", "io.cri-containerd.pinned=pinned", "-")
		if err := pipe(p, load); err != nil {
			return fmt.Errorf("preload %s: %w", p.name, err)
		}
	}
	return nil
}

// pipe runs cmd with the image's archive as its standard input.
func pipe(p picture, cmd *exec.Cmd) error {
	reader, writer := io.Pipe()
	defer reader.Close()
	go func() { writer.CloseWithError(p.write(writer)) }()
	cmd.Stdin = reader
	return command.Run(cmd)
}

func fileDigest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
