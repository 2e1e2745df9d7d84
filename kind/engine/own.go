package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-cni/holdfast/kind/command"
)

// An engine of our own lives in namespaces of its own: processes, mounts, network. Its bridges, routes and firewall rules
// are not the machine's, nothing in it can reach the outside, and when its first process ends the kernel ends every other
// one and takes network and mounts with them, also after a crash. One veth pair leads in, for the API server.
const script = `
mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs tmpfs /run && ip link set lo up &&
exec docker-init -- dockerd --config-file "$0/daemon.json"`

// state is what a later command needs to know about the engine, kept as JSON in its folder.
type state struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // the kernel's start time of PID, so that a reused number is never ours
	Name    string `json:"name"`    // of its link and its control groups
	Address string `json:"address"`
}

func running(folder string) *Engine {
	s, err := load(folder)
	if err != nil || s.Started != startTime(s.PID) {
		return nil
	}
	return &Engine{Host: "unix://" + folder + "/docker.sock", Address: s.Address, Own: folder}
}

func start(ctx context.Context, folder string) (engine *Engine, err error) {
	if len(folder) > 90 {
		return nil, fmt.Errorf("the cache folder's path %q is too long for a socket: set HOLDFAST_CACHE to a shorter one", folder)
	}
	if err := install(ctx); err != nil {
		return nil, err
	}
	if err := Stop(folder); err != nil { // what is left of one that was killed
		return nil, err
	}
	s := state{}
	if s.Name, s.Address, err = freeName(); err != nil {
		return nil, err
	}
	if err := configure(ctx, folder, s.Name); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()

	// Not bound to ctx: it outlives this command.
	daemon := exec.Command("sh", "-c", script, folder)
	daemon.Env = append(os.Environ(), "HOLDFAST_CGROUP="+s.Name)
	daemon.Stdout, daemon.Stderr = log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	if err := daemon.Start(); err != nil {
		return nil, fmt.Errorf("start an engine in namespaces of its own: %w", err)
	}
	s.PID, s.Started = daemon.Process.Pid, startTime(daemon.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	defer func() {
		if err != nil {
			err = errors.Join(err, Stop(folder))
		}
	}()
	if err := save(folder, s); err != nil {
		return nil, err
	}
	if err := connect(ctx, s); err != nil {
		return nil, err
	}
	engine = running(folder)
	for deadline := time.Now().Add(30 * time.Second); ; {
		if engine != nil && engine.answers(ctx) == nil {
			return engine, engine.clear(ctx)
		}
		select {
		case <-ended:
			return nil, fmt.Errorf("our own dockerd ended: %s", lastLine(log.Name()))
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("our own dockerd does not answer: %s", lastLine(log.Name()))
		}
	}
}

// install makes sure of dockerd, on Debian by its package.
func install(ctx context.Context) error {
	if _, err := exec.LookPath("dockerd"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("no container engine answers and dockerd is not installed: install and start Docker")
	}
	fmt.Fprintln(os.Stderr, "kind: installing Debian's docker.io")
	const script = "apt-get update -q && apt-get install -q -y --no-install-recommends docker.io iptables iproute2"
	cmd := command.New(ctx, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return command.Run(cmd)
}

// configure writes what dockerd reads, and builds the runtime that stands in front of Debian's runc.
func configure(ctx context.Context, folder, name string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	runtime := filepath.Join(folder, "runtime")
	build := command.New(ctx, "go", "build", "-o", runtime, "github.com/holdfast-cni/holdfast/kind/image/runtime")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := command.Run(build); err != nil {
		return err
	}
	if err := os.Remove(runtime + ".real"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(runc, runtime+".real"); err != nil {
		return err
	}
	config, err := json.MarshalIndent(map[string]any{
		"hosts":           []string{"unix://" + folder + "/docker.sock"},
		"data-root":       folder + "/data",
		"exec-root":       "/run/docker", // in its own mount namespace
		"pidfile":         "/run/docker.pid",
		"cgroup-parent":   "/" + name,
		"exec-opts":       []string{"native.cgroupdriver=cgroupfs"}, // systemd is not in these namespaces
		"runtimes":        map[string]any{"holdfast": map[string]string{"path": runtime}},
		"default-runtime": "holdfast",
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "daemon.json"), config, 0o600)
}

// freeName returns the first name that no link has, and the link-local address that goes with it.
func freeName() (name, address string, err error) {
	for i := range 16 {
		name := fmt.Sprintf("holdfast%d", i)
		if _, err := net.InterfaceByName(name); err != nil {
			return name, fmt.Sprintf("169.254.97.%d", 4*i+2), nil
		}
	}
	return "", "", errors.New("the links holdfast0 to holdfast15 are all taken: run make kind-down, or ip link delete")
}

// connect lays the veth pair between the machine and the engine's network namespace.
func connect(ctx context.Context, s state) error {
	inside := net.ParseIP(s.Address).To4()
	outside := slices.Clone(inside)
	outside[3]--
	pid := strconv.Itoa(s.PID)
	for _, line := range []string{
		"ip link add " + s.Name + " type veth peer name machine netns " + pid,
		"ip address add " + outside.String() + "/30 dev " + s.Name,
		"ip link set " + s.Name + " up",
		"nsenter --net --target " + pid + " ip address add " + inside.String() + "/30 dev machine",
		"nsenter --net --target " + pid + " ip link set machine up",
	} {
		words := strings.Fields(line)
		if err := command.Run(command.New(ctx, words[0], words[1:]...)); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends the engine in folder, if one runs, and all that ran in it. Images stay in the folder for the next time.
func Stop(folder string) error {
	s, err := load(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if s.Started != startTime(s.PID) {
			break
		}
		// Once: dockerd takes a third SIGTERM for an order to drop everything.
		if err := syscall.Kill(s.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end our dockerd, pid %d: %w", s.PID, err)
		}
		for range 200 {
			if s.Started != startTime(s.PID) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	if s.Started == startTime(s.PID) {
		return fmt.Errorf("our dockerd, pid %d, does not end", s.PID)
	}
	// The kernel takes the link with the namespace, some time later; now is better, and gone already is fine.
	_ = exec.Command("ip", "link", "delete", s.Name).Run()
	removeCgroups(s.Name)
	for _, name := range []string{"docker.sock", "daemon.json", "log", "engine.json"} {
		if err := os.Remove(filepath.Join(folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Thaw lets everything go on that runs in the engine of that folder. On cgroup v1 runc freezes a container for a moment when it sets
// its limits; one that is killed then leaves it frozen, and what is frozen cannot be killed.
func Thaw(folder string) {
	s, err := load(folder)
	if err != nil {
		return
	}
	_ = filepath.WalkDir("/sys/fs/cgroup/freezer/"+s.Name, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "freezer.state" {
			_ = os.WriteFile(path, []byte("THAWED"), 0)
		}
		return nil
	})
}

// removeCgroups removes the engine's control groups, deepest first. The kernel refuses to remove one that is in use.
func removeCgroups(name string) {
	tops, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	for _, top := range append(tops, "/sys/fs/cgroup/"+name) {
		var folders []string
		_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return nil
		})
		for _, path := range slices.Backward(folders) {
			_ = os.Remove(path)
		}
	}
}

func load(folder string) (s state, err error) {
	content, err := os.ReadFile(filepath.Join(folder, "engine.json"))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(content, &s)
}

func save(folder string, s state) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "engine.json"), content, 0o600)
}

// startTime returns the kernel's start time of a process (field 22 of proc(5) stat), and "" if there is none or it is
// ended and only not yet waited for.
func startTime(pid int) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(content), ") ") // the name before it may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

func lastLine(path string) string {
	content, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return lines[len(lines)-1]
}
