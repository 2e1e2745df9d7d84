package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-cni/holdfast/kind/command"
	"github.com/holdfast-cni/holdfast/kind/engine"
	"github.com/holdfast-cni/holdfast/kind/parts"
)

var cniPlugins = []string{"bridge", "host-local", "loopback", "portmap", "ptp", "tuning"}

// ingredients are what the pictures are made from.
type ingredients struct {
	bin          map[string]string // third-party binaries, and our own probe and runtime
	base, clang  layer
	kind, cilium string // folders with the sources of these modules
	work         string // a folder for what is thrown away afterwards
	err          error  // of the layers made so far
}

// assemble makes the node image and loads it into the engine.
func assemble(ctx context.Context, e *engine.Engine, cache, name string, progress func(string)) error {
	in, err := gather(ctx, cache, progress)
	if err != nil {
		return err
	}
	// A fixed name, so that what a killed run left goes here. Runs lock each other out.
	in.work = filepath.Join(cache, "image")
	if err := errors.Join(os.RemoveAll(in.work), os.Mkdir(in.work, 0o700)); err != nil {
		return err
	}
	defer os.RemoveAll(in.work)

	began := time.Now()
	progress("assembling the node image")
	if err := in.build(ctx, "probe", "runtime"); err != nil {
		return err
	}
	pictures, err := in.pictures(ctx)
	if err != nil {
		return err
	}
	root := filepath.Join(in.work, "containerd")
	if err := preload(ctx, in.bin, in.work, root, pictures); err != nil {
		return err
	}
	images := newLayer(filepath.Join(in.work, "images.tar"))
	images.tree("var/lib/containerd", 0, root)
	preloaded, err := images.close()
	if err != nil {
		return err
	}
	files, err := in.node(ctx)
	if err != nil {
		return err
	}
	node := picture{name: name, layers: []layer{in.base, files, preloaded}, env: []string{"container=docker"},
		entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"}, stopSignal: "SIGRTMIN+3"}
	if err := pipe(node, e.Command(ctx, "docker", "load", "--quiet")); err != nil {
		return fmt.Errorf("load the node image: %w", err)
	}
	progress(fmt.Sprintf("node image assembled in %d s", int(time.Since(began).Seconds())))
	return nil
}

// gather gets everything that is kept in the cache folder.
func gather(ctx context.Context, cache string, progress func(string)) (*ingredients, error) {
	in := &ingredients{}
	versions, err := parts.Versions(ctx)
	if err != nil {
		return nil, err
	}
	if in.bin, err = parts.Get(ctx, inNode(versions)...); err != nil {
		return nil, err
	}
	if in.kind, err = parts.Source(ctx, "kind", "sigs.k8s.io/kind"); err != nil {
		return nil, err
	}
	if in.cilium, err = parts.Source(ctx, "cilium", "github.com/cilium/cilium"); err != nil {
		return nil, err
	}
	in.base, in.clang, err = debian(ctx, cache, progress)
	return in, err
}

// build compiles programs of our own.
func (in *ingredients) build(ctx context.Context, names ...string) error {
	for _, name := range names {
		in.bin[name] = filepath.Join(in.work, name)
		cmd := command.New(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", in.bin[name],
			"github.com/holdfast-cni/holdfast/kind/image/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := command.Run(cmd); err != nil {
			return err
		}
	}
	return nil
}

// LoadProbe loads the image of the test pods into the engine. Only released nodes lack it.
func LoadProbe(ctx context.Context, e *engine.Engine, cache string) (err error) {
	in := &ingredients{bin: map[string]string{}}
	if in.work, err = os.MkdirTemp(cache, "image-"); err != nil {
		return err
	}
	defer os.RemoveAll(in.work)
	if err := in.build(ctx, "probe"); err != nil {
		return err
	}
	p := in.probe()
	return errors.Join(in.err, pipe(p, e.Command(ctx, "docker", "load", "--quiet")))
}

func (in *ingredients) probe() picture {
	return picture{name: Probe, entrypoint: []string{"/probe"}, layers: []layer{in.binary("probe", "/probe")}}
}

var sandboxImage = regexp.MustCompile(`sandbox_image = "([^"]+)"`)

// pictures returns every image that a node needs. Their names are those of the releases they stand for.
func (in *ingredients) pictures(ctx context.Context) ([]picture, error) {
	versions, err := parts.Versions(ctx)
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(filepath.Join(in.kind, "images/base/files/etc/containerd/config.toml"))
	if err != nil {
		return nil, err
	}
	pause := sandboxImage.FindSubmatch(config)
	if pause == nil {
		return nil, fmt.Errorf("kind's containerd configuration names no sandbox image")
	}
	cilium := versions["cilium-agent"]
	list := []picture{
		in.probe(),
		{name: string(pause[1]), entrypoint: []string{"/pause"}, layers: []layer{in.binary("probe", "/pause")}},
		{name: "quay.io/cilium/operator-generic:" + cilium, entrypoint: []string{"/usr/bin/cilium-operator-generic"},
			layers: []layer{in.binary("cilium-operator-generic", "/usr/bin/cilium-operator-generic")}},
		{name: "quay.io/cilium/cilium:" + cilium, layers: []layer{in.base, in.clang, in.agent()}},
	}
	kubeadm, err := command.Output(command.New(ctx, in.bin["kubeadm"], "config", "images", "list",
		"--kubernetes-version", versions["kubeadm"]))
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(kubeadm) {
		switch program := strings.Split(path.Base(name), ":")[0]; program {
		case "pause": // containerd's configuration says which one
		case "coredns":
			list = append(list, picture{name: name, entrypoint: []string{"/coredns"}, layers: []layer{in.binary(program, "/coredns")}})
		case "kube-proxy":
			list = append(list, picture{name: name, layers: []layer{in.base, in.binary(program, "/usr/local/bin/"+program)}})
		default:
			list = append(list, picture{name: name, layers: []layer{in.binary(program, "/usr/local/bin/"+program)}})
		}
	}
	return list, in.err
}

// binary returns a layer with one program, and with the folders that programs expect.
func (in *ingredients) binary(name, to string) layer {
	w := newLayer(filepath.Join(in.work, strings.ReplaceAll(to, "/", "-")+".tar"))
	w.dir("tmp", 0o1777)
	w.copy(to, 0o755, in.bin[name])
	return in.done(w)
}

// agent returns the layer with Cilium's own files, after images/cilium/Dockerfile.
func (in *ingredients) agent() layer {
	w := newLayer(filepath.Join(in.work, "cilium.tar"))
	for _, name := range []string{"agent", "dbg", "health", "health-responder", "mount", "sysctlfix"} {
		w.copy("usr/bin/cilium-"+name, 0o755, in.bin["cilium-"+name])
	}
	w.copy("opt/cni/bin/cilium-cni", 0o755, in.bin["cilium-cni"])
	w.copy("cni/loopback", 0o755, in.bin["loopback"])
	for _, file := range []string{"images/cilium/init-container.sh", "plugins/cilium-cni/install-plugin.sh", "plugins/cilium-cni/cni-uninstall.sh"} {
		w.copy(path.Base(file), 0o755, filepath.Join(in.cilium, file))
	}
	for _, name := range []string{"include", "lib"} {
		w.tree("var/lib/cilium/bpf/"+name, 0o644, filepath.Join(in.cilium, "bpf", name))
	}
	sources, err := filepath.Glob(filepath.Join(in.cilium, "bpf", "*.*"))
	if err != nil {
		w.err = err
	}
	for _, source := range append(sources, filepath.Join(in.cilium, "bpf", "Makefile")) {
		w.copy("var/lib/cilium/bpf/"+path.Base(source), 0o644, source)
	}
	return in.done(w)
}

// done closes a layer and keeps its error for pictures to return.
func (in *ingredients) done(w *layerWriter) layer {
	l, err := w.close()
	in.err = errors.Join(in.err, err)
	return l
}

const storageClass = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
`

// node returns the layer that turns the base into a node, after kind's images/base/Dockerfile and its node image build.
func (in *ingredients) node(ctx context.Context) (layer, error) {
	w := newLayer(filepath.Join(in.work, "node.tar"))
	files := filepath.Join(in.kind, "images/base/files")
	edit := func(name, old, new string) {
		content, err := os.ReadFile(filepath.Join(files, name))
		if err != nil {
			w.err = err
			return
		}
		if !strings.Contains(string(content), old) {
			w.err = fmt.Errorf("kind's %s does not say %q any more: adapt the recipe", name, old)
			return
		}
		w.text(name, 0o644, strings.Replace(string(content), old, new, 1))
	}
	w.tree("usr/local/bin", 0o755, filepath.Join(files, "usr/local/bin"))
	w.tree("kind/bin", 0o755, filepath.Join(files, "kind/bin"))
	for _, name := range []string{"etc/crictl.yaml", "etc/default", "etc/sysctl.d",
		"etc/systemd/system/kubelet.service", "etc/systemd/system/kubelet.service.d", "etc/systemd/system/kubelet.slice",
		"etc/systemd/system/undo-mount-hacks.service"} {
		w.tree(name, 0o644, filepath.Join(files, name))
	}
	// For machines without CAP_SYS_RESOURCE: nothing there may have a lower OOM score than what started it.
	edit("etc/systemd/system/containerd.service", "OOMScoreAdjust=-999\n", "")
	edit("etc/containerd/config.toml", "restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
	spec, err := in.runtimeSpec(ctx)
	if err != nil {
		return layer{}, err
	}
	w.text("etc/containerd/cri-base.json", 0o644, spec)

	for _, name := range []string{"kubelet", "containerd", "undo-mount-hacks"} {
		w.link("etc/systemd/system/multi-user.target.wants/"+name+".service", "/etc/systemd/system/"+name+".service")
	}
	w.link("etc/systemd/system/systemd-binfmt.service", "/dev/null") // it would change the machine's kernel
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "crictl"} {
		w.copy("usr/local/bin/"+name, 0o755, in.bin[name])
	}
	w.copy("usr/local/sbin/runc", 0o755, in.bin["runtime"])
	w.copy("usr/local/sbin/runc.real", 0o755, in.bin["runc"])
	for _, name := range []string{"kubelet", "kubectl", "kubeadm"} {
		w.copy("usr/bin/"+name, 0o755, in.bin[name])
	}
	for _, name := range cniPlugins {
		w.copy("opt/cni/bin/"+name, 0o755, in.bin[name])
	}
	w.dir("etc/cni/net.d", 0o755)
	w.dir("etc/kubernetes/manifests", 0o755)
	w.text("kind/manifests/default-storage.yaml", 0o644, storageClass)
	versions, err := parts.Versions(ctx)
	if err != nil {
		return layer{}, err
	}
	w.text("kind/version", 0o644, versions["kubelet"])
	return w.close()
}

// runtimeSpec returns what containerd starts every container from: its default, with kind's hook and without limits.
func (in *ingredients) runtimeSpec(ctx context.Context) (string, error) {
	output, err := command.Output(command.New(ctx, in.bin["ctr"], "oci", "spec"))
	if err != nil {
		return "", err
	}
	var spec map[string]any
	if err := json.Unmarshal([]byte(output), &spec); err != nil {
		return "", fmt.Errorf("ctr oci spec: %w", err)
	}
	if process, ok := spec["process"].(map[string]any); ok {
		delete(process, "rlimits")
	}
	spec["hooks"] = map[string]any{"createContainer": []any{map[string]string{"path": "/kind/bin/mount-product-files.sh"}}}
	content, err := json.MarshalIndent(spec, "", "  ")
	return string(content), err
}
