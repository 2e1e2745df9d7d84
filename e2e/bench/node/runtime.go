package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/e2e/crash"
	"github.com/holdfast-cni/holdfast/e2e/demo/product"
	"github.com/holdfast-cni/holdfast/watcher/cri"
)

// runtime is a containerd of its own, that reads the CNI configuration under a root directory.
type runtime struct {
	conf    string
	process *product.Process
	conn    *cri.Runtime
}

const socket = "/run/containerd.sock" // under the root

// startRuntime needs a folder in which it may make what it likes; the root is in it.
func startRuntime(ctx context.Context, containerd, folder, root string) (r *runtime, err error) {
	r = &runtime{conf: filepath.Join(root, "etc/cni/net.d")}
	for _, dir := range []string{r.conf, filepath.Join(root, "run")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make a directory: %w", err)
		}
	}
	config := fmt.Sprintf(`version = 3
root = '%[1]s/containerd/root'
state = '%[1]s/containerd/state'
[grpc]
address = '%[2]s'
[plugins.'io.containerd.cri.v1.images']
snapshotter = 'native'
[plugins.'io.containerd.cri.v1.runtime'.cni]
conf_dir = '%[3]s'
bin_dirs = ['%[4]s']
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.internal.v1.opt']
path = '%[1]s/containerd/opt'
`, folder, filepath.Join(root, socket), r.conf, filepath.Join(root, "opt/cni/bin"))
	file := filepath.Join(folder, "containerd.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write containerd's configuration: %w", err)
	}
	if r.process, err = product.Start(containerd, "--config", file); err != nil {
		return nil, err
	}
	if r.conn, err = cri.Dial(filepath.Join(root, socket), socket); err != nil {
		return nil, errors.Join(err, r.close())
	}
	for end := time.Now().Add(time.Minute); ; {
		_, err := r.ask(ctx)
		if err == nil {
			return r, nil
		}
		if r.process.Exited() || time.Now().After(end) || pause(ctx, 20*time.Millisecond) != nil {
			return nil, errors.Join(fmt.Errorf("containerd does not answer: %w; it said last: %s", err, r.process.Log()), ctx.Err(), r.close())
		}
	}
}

func (r *runtime) close() error {
	var errs []error
	if r.conn != nil {
		errs = append(errs, r.conn.Close())
	}
	return errors.Join(append(errs, r.process.Stop(15*time.Second))...)
}

// ask is what the runtime has loaded; nil for nothing.
func (r *runtime) ask(ctx context.Context) (*chaining.List, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answer, err := r.conn.Ask(ctx)
	switch {
	case err != nil:
		return nil, err
	case answer.LoadedErr != nil || answer.Failure != "":
		return nil, nil
	}
	return answer.Loaded, nil
}

// proved waits until the runtime says that it has loaded the right list, and that list is what libcni reads from the disk: then
// nothing that the runtime loads later is worse. It returns when that was so, and how often the runtime had another one before.
func (r *runtime) proved(ctx context.Context, right func(*chaining.List) bool) (at time.Time, wrong int, err error) {
	for end := time.Now().Add(20 * time.Second); ; {
		onDisk, unread := crash.Loads(r.conf)
		loaded, err := r.ask(ctx)
		now := time.Now()
		said := "nothing"
		if err == nil && loaded != nil {
			said, err = words(loaded)
		}
		switch {
		case err != nil:
			return now, wrong, fmt.Errorf("ask containerd: %w", err)
		case loaded == nil || !right(loaded):
			wrong++
		case said == onDisk:
			return now, wrong, nil
		}
		if now.After(end) {
			return now, wrong, errors.Join(fmt.Errorf("what is right was not seen within 20 s; containerd has loaded %s; on disk is %s", said, onDisk), unread)
		}
		if err := pause(ctx, 300*time.Microsecond); err != nil {
			return now, wrong, err
		}
	}
}

// words are a list in those of crash.Loads.
func words(list *chaining.List) (string, error) {
	said := list.Name() + " " + list.CNIVersion()
	for _, p := range list.Plugins() {
		text, err := crash.Compact(p.Bytes())
		if err != nil {
			return "", err
		}
		said += "\n" + text
	}
	return said, nil
}
