package plugin

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/holdfast-cni/holdfast/plugin/pass"
)

// folder is where the executable is made, once, as make build makes it.
var folder string

var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(folder, Type), "../cmd/holdfast-cni")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return cmd.Run()
})

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "holdfast-cni-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

func binary(t *testing.T) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, Type)
}

func TestBinaryIsSmall(t *testing.T) {
	info, err := os.Stat(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 8<<20 {
		t.Errorf("%d bytes, more than 8 MiB", info.Size())
	}
}

// call runs the executable in a mount namespace of its own, where /run is empty and writable, as on a node where no agent ever was.
func call(t *testing.T, stdin string, env ...string) (stdout, stderr string, code int) {
	t.Helper()
	needRoot(t)
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs none /run && exec "$0"`, binary(t))
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS=/nowhere", "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin",
		"CNI_ARGS=K8S_POD_NAMESPACE=default;K8S_POD_NAME=p;K8S_POD_UID=u1",
	}, env...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() < 0 {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// I2: an ungoverned pod pays nothing for the lock: its packages aren't even initialized.
func TestUngovernedPodPassesFirst(t *testing.T) {
	out, trace, code := call(t, string(configOf("1.0.0", "")), "GODEBUG=inittrace=1")
	if code != 0 || out != resultText("1.0.0")+"\n" {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, late := range []string{
		"net", "regexp", "golang.org/x/sys/cpu", "github.com/google/nftables", "github.com/vishvananda/netlink",
		"github.com/containernetworking/cni/pkg/utils", "github.com/holdfast-cni/holdfast/lock",
	} {
		if strings.Contains(trace, "init "+late+" ") {
			t.Errorf("%s was initialized before it passed", late)
		}
	}
	if !strings.Contains(trace, "init encoding/json") {
		t.Errorf("the trace shows nothing: %s", trace)
	}
}

// What stays on a node after Holdfast has left: a plugin without an agent. It refuses governed pods, passes others, and never fails DEL. (I1, I2)
func TestBinaryAloneIsSafe(t *testing.T) {
	netns := holdNetns(t, false)
	governed := "CNI_ARGS=" + agentsPod
	out, _, code := call(t, string(configOf("1.1.0", "")), governed, "CNI_NETNS="+netns)
	var told types.Error
	if err := json.Unmarshal([]byte(out), &told); err != nil || code == 0 || told.Code != types.ErrTryAgainLater {
		t.Errorf("a governed pod: exit code %d: %s", code, out)
	}
	if out, _, code := call(t, string(configOf("1.1.0", "")), "CNI_NETNS="+netns); code != 0 || out != resultText("1.1.0")+"\n" {
		t.Errorf("an ungoverned pod: exit code %d: %s", code, out)
	}
	for name, change := range map[string]struct {
		stdin string
		env   []string
	}{
		"plain":                {string(configOf("1.1.0", "")), nil},
		"governed":             {string(configOf("1.1.0", "")), []string{governed, "CNI_NETNS=" + netns}},
		"no netns":             {string(configOf("1.1.0", "")), []string{"CNI_NETNS="}},
		"the host's":           {string(configOf("1.1.0", "")), []string{"CNI_NETNS=/proc/self/ns/net"}},
		"malformed":            {`{"name":`, nil},
		"another version":      {`{"cniVersion":"9.0.0","name":"n"}`, nil},
		"an id with slashes":   {string(configOf("1.1.0", "")), []string{"CNI_CONTAINERID=../x"}},
		"an interface with no": {string(configOf("1.1.0", "")), []string{"CNI_IFNAME="}},
	} {
		for _, command := range []string{"DEL", "GC"} {
			if out, errs, code := call(t, change.stdin, append(change.env, "CNI_COMMAND="+command)...); code != 0 || out != "" {
				t.Errorf("%s, %s: exit code %d: %s%s", command, name, code, out, errs)
			}
		}
	}
}

// An error that the plugin's frame finds has a fix too, and stands alone on standard output. (N8)
func TestBinaryTellsErrorsWithTheirFix(t *testing.T) {
	for name, test := range map[string]struct {
		stdin string
		env   []string
		code  uint
	}{
		"malformed":          {`{"name":`, nil, types.ErrDecodingFailure},
		"no name":            {`{"cniVersion":"1.0.0"}`, nil, types.ErrInvalidNetworkConfig},
		"another version":    {`{"cniVersion":"9.0.0","name":"n"}`, nil, types.ErrIncompatibleCNIVersion},
		"no prevResult":      {`{"cniVersion":"1.0.0","name":"n"}`, nil, types.ErrInvalidNetworkConfig},
		"an id with slashes": {`{"cniVersion":"1.0.0","name":"n"}`, []string{"CNI_CONTAINERID=../x"}, types.ErrInvalidEnvironmentVariables},
		"no interface":       {`{"cniVersion":"1.0.0","name":"n"}`, []string{"CNI_IFNAME="}, types.ErrInvalidEnvironmentVariables},
		"another verb":       {`{"cniVersion":"1.0.0","name":"n"}`, []string{"CNI_COMMAND=X"}, types.ErrInvalidEnvironmentVariables},
		"STATUS of a list that refuses all": {`{"cniVersion":"1.1.0","name":"n","governedNamespaces":"a"}`, []string{"CNI_COMMAND=STATUS"},
			types.ErrPluginNotAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, code := call(t, test.stdin, test.env...)
			var told types.Error
			if err := json.Unmarshal([]byte(out), &told); err != nil || code == 0 || told.Code != test.code || told.Details == "" || !strings.HasPrefix(told.Msg, about) {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
	if out, _, code := call(t, `{"cniVersion":"1.1.0","name":"n"}`, "CNI_COMMAND=STATUS"); code != 0 || out != "" {
		t.Errorf("STATUS: exit code %d: %s", code, out)
	}
}

// The executable, called by libcni as a runtime calls it, in every version it speaks. (I2)
func TestBinaryAnswersLibcni(t *testing.T) {
	bin := filepath.Dir(binary(t))
	// A first plugin that gives an address, so that holdfast-cni has a prevResult.
	first := "#!/bin/sh\n[ \"$CNI_COMMAND\" = ADD ] && sed 's/.*\"cniVersion\":\"\\([^\"]*\\)\".*/{\"cniVersion\":\"\\1\",\"ips\":[{\"version\":\"4\",\"address\":\"10.0.0.2\\/24\"}]}/'\nexit 0\n"
	if err := os.WriteFile(filepath.Join(bin, "first"), []byte(first), 0o755); err != nil {
		t.Fatal(err)
	}
	netns := holdNetns(t, false)
	for _, version := range pass.Versions() {
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
			if version >= "0.4" {
				if err := cni.CheckNetworkList(t.Context(), list, rt); err != nil {
					t.Errorf("CHECK: %v", err)
				}
			}
			if version >= "1.1" {
				if err := cni.GetStatusNetworkList(t.Context(), list); err != nil {
					t.Errorf("STATUS: %v", err)
				}
			}
			if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
				t.Errorf("DEL: %v", err)
			}
			rt.Args[1][1] = "agents"
			if _, err := cni.AddNetworkList(t.Context(), list, rt); err == nil || !strings.Contains(err.Error(), "governed pod needs") {
				t.Errorf("a governed pod: got %v", err)
			}
			if err := cni.DelNetworkList(t.Context(), list, rt); err != nil {
				t.Errorf("DEL of a governed pod: %v", err)
			}
		})
	}
}
