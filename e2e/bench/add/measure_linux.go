package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/e2e/bench/figure"
	"github.com/holdfast-cni/holdfast/lock"
)

// call is one ADD: of what, with what, and how long it took each time.
type call struct {
	name, executable, stdin, args string
	took, cpu                     figure.Samples
}

const (
	list   = `{"cniVersion":"1.0.0","name":"cilium",`
	result = `"prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","mac":"aa:bb:cc:dd:ee:ff","sandbox":"/run/netns/pod"}],` +
		`"ips":[{"address":"10.244.0.2/24","gateway":"10.244.0.1","interface":0}],"routes":[{"dst":"0.0.0.0/0"}],"dns":{}}}`
	entry = `"type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},"resolvers":["10.96.0.10","fd00::a"],` +
		`"governedNamespaces":["agents"],"allowPrivate":["10.1.0.0/16"],"ingress":{"ports":[8080]},`
)

func calls(folder, portmap string) []*call {
	own := filepath.Join(folder, "holdfast-cni")
	return []*call{
		{name: "pass-through", executable: filepath.Join(folder, "passthrough"), stdin: list + `"type":"passthrough",` + result, args: "default"},
		{name: "ungoverned", executable: own, stdin: list + entry + result, args: "default"},
		{name: "governed", executable: own, stdin: list + entry + result, args: "agents"},
		{
			name: "portmap", executable: portmap, args: "default",
			stdin: list + `"type":"portmap","backend":"nftables","runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]},` + result,
		},
	}
}

func measure(ctx context.Context, folder, portmap string, rounds int, stdout, stderr io.Writer) (err error) {
	if err := prepare(); err != nil {
		return err
	}
	neighbour, err := lockedNeighbour()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, neighbour.Close()) }()
	l, err := adopt.Listen(adopt.Socket)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	var a agent
	server := adopt.Server{Handle: a.adopt, Failed: func(err error) { fmt.Fprintf(stderr, "bench: %v\n", err) }}
	go func() { ended <- server.Serve(serving, l) }()
	all := calls(folder, portmap)
	for round := range rounds {
		if round%50 == 0 {
			fmt.Fprintf(stderr, "bench: round %d of %d\n", round, rounds)
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, c := range all {
			if err := errors.Join(c.once(ctx, round), a.forget()); err != nil {
				stop()
				return errors.Join(err, <-ended)
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(folder, "holdfast-cni"))
	if err != nil {
		return err
	}
	return judge(stdout, all, info.Size())
}

// prepare makes the paths of a node that are written to this run's own.
func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if err := os.Mkdir("/run/netns", 0o755); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// lockedNeighbour is another governed pod of the node, there all the time. In a kernel where no namespace filters at a hook, the first
// that does has the kernel's code patched on every processor (net/netfilter/core.c: nf_hooks_needed), a third of a millisecond for all
// hooks of a lock, which no pod of a node pays: kube-proxy, Cilium and every other governed pod use the same.
func lockedNeighbour() (*lock.Namespace, error) {
	path, err := newNetns("neighbour")
	if err != nil {
		return nil, err
	}
	rules, err := lock.Build(lock.Config{
		Resolvers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, UID: lock.SidecarUID, GID: lock.SidecarGID, HealthPort: lock.HealthPort,
	})
	if err != nil {
		return nil, err
	}
	netns, err := lock.Open(path)
	if err != nil {
		return nil, err
	}
	if _, err := netns.Apply(rules); err != nil {
		return nil, errors.Join(err, netns.Close())
	}
	return netns, nil
}

// once measures one ADD in a new namespace, from the fork to the exit.
func (c *call) once(ctx context.Context, round int) (err error) {
	netns, err := newNetns(c.name + strconv.Itoa(round))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Unmount(netns, unix.MNT_DETACH), os.Remove(netns)) }()
	began := time.Now()
	ended, err := c.run(ctx, "ADD", netns)
	if err != nil {
		return err
	}
	c.took = append(c.took, time.Since(began))
	c.cpu = append(c.cpu, ended.UserTime()+ended.SystemTime())
	_, err = c.run(ctx, "DEL", netns)
	return err
}

func (c *call) run(ctx context.Context, command, netns string) (*os.ProcessState, error) {
	cmd := exec.CommandContext(ctx, c.executable)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "CNI_COMMAND=" + command, "CNI_CONTAINERID=" + filepath.Base(netns), "CNI_NETNS=" + netns, "CNI_IFNAME=eth0",
		"CNI_PATH=" + filepath.Dir(c.executable), "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=" + c.args + ";K8S_POD_NAME=p;K8S_POD_UID=u",
	}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader([]byte(c.stdin)), &out, &out
	if err := cmd.Run(); err != nil {
		// Not wrapped: main takes an exec.ExitError for one that has said why itself.
		return nil, fmt.Errorf("%s of %s: %v: %s", command, c.name, err, &out)
	}
	return cmd.ProcessState, nil
}
