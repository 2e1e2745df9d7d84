package plugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// otherNetns is a network namespace that is not the test's own, as long as the test runs.
func otherNetns(t *testing.T) string {
	t.Helper()
	holder := exec.Command("sleep", "600")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		holder.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if err := holder.Start(); err != nil {
		t.Skipf("no network namespace can be made (run as root, or allow user namespaces): %v", err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	return fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
}

// The binary itself, called by libcni as a runtime calls it, for every version it speaks.
func TestBinaryAnswersLibcni(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, Type), "../cmd/holdfast-cni")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// A first plugin that gives an address, so that holdfast-cni has a prevResult.
	first := "#!/bin/sh\n[ \"$CNI_COMMAND\" = ADD ] && sed 's/.*\"cniVersion\":\"\\([^\"]*\\)\".*/{\"cniVersion\":\"\\1\",\"ips\":[{\"version\":\"4\",\"address\":\"10.0.0.2\\/24\"}]}/'\nexit 0\n"
	if err := os.WriteFile(filepath.Join(bin, "first"), []byte(first), 0o755); err != nil {
		t.Fatal(err)
	}
	netns := otherNetns(t)
	for _, version := range Versions() {
		t.Run(version, func(t *testing.T) {
			list, err := libcni.ConfListFromBytes([]byte(`{"cniVersion":"` + version + `","name":"n","plugins":[{"type":"first"},{"type":"holdfast-cni","governedNamespaces":["agents"]}]}`))
			if err != nil {
				t.Fatal(err)
			}
			cni := libcni.NewCNIConfigWithCacheDir([]string{bin}, t.TempDir(), nil)
			rt := &libcni.RuntimeConf{ContainerID: "c1", NetNS: netns, IfName: "eth0", Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", "p"}}}
			result, err := cni.AddNetworkList(t.Context(), list, rt)
			if err != nil {
				t.Fatal(err)
			}
			converted, err := types100.NewResultFromResult(result)
			if err != nil || len(converted.IPs) != 1 {
				t.Errorf("got %v, %v; want the first plugin's address", converted, err)
			}
			if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
				t.Errorf("DEL: %v", err)
			}
			rt.Args[1][1] = "agents"
			if _, err := cni.AddNetworkList(t.Context(), list, rt); err == nil || !strings.Contains(err.Error(), "pod agents/p is governed") {
				t.Errorf("a governed pod: got %v", err)
			}
			if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
				t.Errorf("DEL of a governed pod: %v", err)
			}
		})
	}
}
