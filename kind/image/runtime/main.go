// Command runtime stands in front of runc where plain Docker, kind and Cilium would fail or reach too far:
//
//   - Where processes lack CAP_SYS_RESOURCE (a sandboxed CI machine), runc cannot grant it and may not raise limits: the
//     capability, the limits and a negative OOM score are dropped from what it is asked for.
//   - Where cgroup v1 is in use with a cgroup2 hierarchy beside it, runc leaves the container in the machine's own cgroup2
//     root, and Cilium in a node would attach its eBPF programs there. The container gets a cgroup2 group of its own.
//
// Elsewhere it changes nothing. The real runc is the file <this file>.real.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	capability    = "CAP_SYS_RESOURCE"
	capabilityBit = 24 // its number in linux/capability.h
	cgroup2       = "/sys/fs/cgroup/unified"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if !granted() {
		if bundle := flag(args, "--bundle", "-b"); bundle != "" {
			if err := rewrite(filepath.Join(bundle, "config.json"), "process"); err != nil {
				return err
			}
		}
		if process := flag(args, "--process", "-p"); process != "" && slices.Contains(args, "exec") {
			if err := rewrite(process, ""); err != nil {
				return err
			}
		}
	}
	if len(args) > 0 && hasCgroup2() {
		group := filepath.Join(cgroup2, os.Getenv("HOLDFAST_CGROUP"), args[len(args)-1]) // the container's id comes last
		switch {
		case slices.Contains(args, "create"), slices.Contains(args, "exec"):
			if err := join(group); err != nil {
				return err
			}
		case slices.Contains(args, "delete"):
			_ = os.Remove(group) // refused while something is in it
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self+".real", append([]string{"runc"}, args...), os.Environ())
}

// granted reports whether this process could pass the capability on.
func granted() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(status)) {
		if set, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err != nil || bits&(1<<capabilityBit) != 0
		}
	}
	return true
}

// flag returns the value of the first of names that args hold, in either spelling.
func flag(args []string, names ...string) string {
	for i, arg := range args {
		for _, name := range names {
			if arg == name && i+1 < len(args) {
				return args[i+1]
			}
			if value, ok := strings.CutPrefix(arg, name+"="); ok {
				return value
			}
		}
	}
	return ""
}

// rewrite takes what is not granted out of the process in a JSON file: the value of key, or the file itself if key is empty.
func rewrite(path, key string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var document map[string]any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber() // as they are written: device numbers and limits exceed a float's precision
	if err := decoder.Decode(&document); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	process := document
	if key != "" {
		process, _ = document[key].(map[string]any)
	}
	restrict(process)
	if content, err = json.Marshal(document); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

func restrict(process map[string]any) {
	if process == nil {
		return
	}
	sets, _ := process["capabilities"].(map[string]any)
	for name, set := range sets {
		list, _ := set.([]any)
		sets[name] = slices.DeleteFunc(list, func(c any) bool { return c == capability })
	}
	if score, ok := process["oomScoreAdj"].(json.Number); ok && strings.HasPrefix(score.String(), "-") {
		process["oomScoreAdj"] = 0
	}
	delete(process, "rlimits")
}

// hasCgroup2 reports whether a cgroup2 hierarchy is mounted beside cgroup v1.
func hasCgroup2() bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(cgroup2, &fs) == nil && fs.Type == 0x63677270 // CGROUP2_SUPER_MAGIC
}

// join moves this process, and with it what it is about to start, into the group.
func join(group string) error {
	if err := os.MkdirAll(group, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}
