// Package lab is the cluster that the e2e specs run on: one that kind makes for them, or any that a kubeconfig names. What a
// kubeconfig cannot do (files and processes of a node, reboots) goes through the engine, and is not there without one.
package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-cni/holdfast/e2e/controlplane"
)

// Lab is a cluster under test.
type Lab struct {
	Config *rest.Config
	Kube   kubernetes.Interface
	// Name of the kind cluster; "" for one that was not made here.
	Name string

	folder, kind string
	env          []string
	tools        map[string]string
	out          io.Writer
}

// Options say what cluster kind makes: the network and any flag of kind up.
type Options struct {
	Name, Net string
	Flags     []string
	// Out gets what the tools say.
	Out io.Writer
}

// Make makes a cluster. Down must be called, also after an error.
func Make(ctx context.Context, o Options) (*Lab, error) {
	l := &Lab{Name: o.Name, out: o.Out}
	var err error
	if l.folder, err = os.MkdirTemp("", "holdfast-lab-"); err != nil {
		return l, fmt.Errorf("make a folder: %w", err)
	}
	l.kind = filepath.Join(l.folder, "kind")
	if err := l.build(ctx, "./kind", l.kind); err != nil {
		return l, err
	}
	kubeconfig := filepath.Join(l.folder, "kubeconfig")
	l.env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	if _, err := l.run(ctx, l.kind, "env", "-name", o.Name); err == nil {
		kind := l.kind
		l.kind = "" // it is not ours to remove
		return l, fmt.Errorf("a cluster %q is there already, perhaps left by a run that was killed: %s down -name %s", o.Name, filepath.Base(kind), o.Name)
	}
	args := append([]string{"up", "-name", o.Name}, o.Flags...)
	if _, err := l.run(ctx, l.kind, append(args, o.Net)...); err != nil {
		return l, err
	}
	if err := l.learn(ctx); err != nil {
		return l, err
	}
	return l, l.connect(kubeconfig)
}

// Attach uses the cluster of a kubeconfig.
func Attach(kubeconfig string, out io.Writer) (*Lab, error) {
	l := &Lab{out: out}
	return l, l.connect(kubeconfig)
}

// Down removes what Make made, and what is left of it.
func (l *Lab) Down(ctx context.Context) error {
	if l.kind != "" {
		if _, err := l.run(ctx, l.kind, "down", "-name", l.Name); err != nil {
			return err
		}
		l.kind = ""
	}
	return os.RemoveAll(l.folder)
}

// HasEngine reports whether nodes can be reached beside the API.
func (l *Lab) HasEngine() bool { return l.kind != "" }

// Tool is the path of kubectl, helm or kind, as the cluster was made with.
func (l *Lab) Tool(name string) string {
	if path, found := l.tools[name]; found {
		return path
	}
	return name
}

// Folder is for files of this run.
func (l *Lab) Folder() string { return l.folder }

func (l *Lab) connect(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 100, 100
	l.Config = config
	if l.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return nil
}

var export = regexp.MustCompile(`([A-Z_]+)=(\S+)`)

// learn asks kind how to reach engine and tools.
func (l *Lab) learn(ctx context.Context) error {
	said, err := l.run(ctx, l.kind, "env", "-name", l.Name)
	if err != nil {
		return err
	}
	l.tools = map[string]string{}
	for _, pair := range export.FindAllStringSubmatch(said, -1) {
		l.env = append(l.env, pair[1]+"="+pair[2])
		if tool, found := strings.CutPrefix(pair[1], "HOLDFAST_"); found {
			l.tools[strings.ToLower(tool)] = pair[2]
		}
	}
	return nil
}

// build makes a static binary of one of the project's commands.
func (l *Lab) build(ctx context.Context, what, to string, flags ...string) error {
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", to}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, what)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", what, err, out)
	}
	return nil
}

// run runs a tool in the project's folder and returns its standard output.
func (l *Lab) run(ctx context.Context, name string, args ...string) (string, error) {
	return l.feed(ctx, nil, name, args...)
}

func (l *Lab) feed(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = root, l.env, stdin
	cmd.Stdout, cmd.Stderr = &stdout, io.MultiWriter(&stderr, l.out)
	// Its own process group: Ctrl-C ends the specs, and then Down must still work.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, tail(stderr.String()+stdout.String()))
	}
	return stdout.String(), nil
}

func tail(text string) string {
	const most = 2000
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// Network brings a network to the cluster, or sets one right that is there.
func (l *Lab) Network(ctx context.Context, name string) error {
	_, err := l.run(ctx, l.kind, "network", "-name", l.Name, name)
	return err
}
