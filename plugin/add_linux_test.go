package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/nftables"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/plugin/pass"
)

// configOf is what a runtime gives the plugin, of a CNI version, with a prevResult of the same.
func configOf(version, more string) []byte {
	return fmt.Appendf(nil, `{"cniVersion":%q,"name":"cilium","type":"holdfast-cni","capabilities":{"io.kubernetes.cri.pod-annotations":true},`+
		`"resolvers":["10.96.0.10","fd00:96::a"],"governedNamespaces":["agents"]%s,"prevResult":%s}`, version, more, resultText(version))
}

func resultText(version string) string {
	ips := `{"address":"10.244.0.2/24"}`
	if version < "1" {
		ips = `{"version":"4","address":"10.244.0.2/24"}`
	}
	return fmt.Sprintf(`{"cniVersion":%q,  "ips":[%s],"dns":{}}`, version, ips)
}

const agentsPod = "IgnoreUnknown=1;K8S_POD_NAMESPACE=agents;K8S_POD_NAME=p;K8S_POD_UID=u1"

func argsOf(netns string, stdin []byte) *skel.CmdArgs {
	return &skel.CmdArgs{ContainerID: "c1", Netns: netns, IfName: "eth0", Args: agentsPod, StdinData: stdin}
}

// shortDir is a folder whose path leaves room for a socket's: 108 bytes in all (unix(7)), and t.TempDir has the test's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newPlugin has a folder of its own, and an agent that answers as the function says, if there is one.
func newPlugin(t *testing.T, agent func(context.Context, adopt.Request) error) Plugin {
	t.Helper()
	folder := filepath.Join(shortDir(t), "holdfast")
	p := Plugin{Socket: filepath.Join(folder, "agent.sock"), States: adopt.Store{Folder: filepath.Join(folder, "pods")}, Log: io.Discard}
	if agent == nil {
		return p
	}
	l, err := adopt.Listen(p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- adopt.Server{Handle: agent}.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

// lend is what an agent does at the least: renew what has a lease, else lend a first one.
func lend(_ context.Context, r adopt.Request) error { return lendFor(r, lock.Lease) }

func lendFor(r adopt.Request, d time.Duration) error {
	n, err := lock.Open(r.NetNS)
	if err != nil {
		return err
	}
	defer func() { _ = n.Close() }()
	err = n.Renew(d)
	if errors.Is(err, lock.ErrExpired) {
		err = n.FirstLease(d)
	}
	if errors.Is(err, lock.ErrTicketUsed) {
		return &adopt.Refusal{Code: "Expired", Says: "the lease has run out", Fix: "delete the pod"}
	}
	return err
}

// I1, N8: on every kind of network, in every version, not one packet leaves from the moment that the agent is asked to its answer, and
// after it only the sidecar's. (I1, N8)
func TestGovernedPodIsClosedUntilItsLease(t *testing.T) {
	kinds := []struct {
		name       string
		v4, v6, un bool
		interfaces int
	}{
		{"IPv4", true, false, false, 1}, {"IPv6", false, true, false, 1}, {"dual stack", true, true, false, 1},
		{"several interfaces", true, true, false, 3}, {"hostUsers false", true, true, true, 1},
	}
	for _, kind := range kinds {
		for _, version := range pass.Versions() {
			t.Run(kind.name+" "+version, func(t *testing.T) {
				pod := network(t, kind.v4, kind.v6, kind.un, kind.interfaces)
				resolvers, others := pod.targets()
				if got := pod.send(t, 1000, others); got < uint64(burst*len(others)) {
					t.Fatalf("%d packets came out of the open pod: the network of the test doesn't work", got)
				}
				p := newPlugin(t, func(ctx context.Context, r adopt.Request) error {
					if got := pod.send(t, lock.SidecarUID, append(resolvers, others...)) + pod.send(t, 0, others); got != 0 {
						t.Errorf("%d packets came out before the lease", got)
					}
					return lend(ctx, r)
				})
				stdin := configOf(version, "")
				got, err := p.add(t.Context(), argsOf(pod.path, stdin))
				if err != nil {
					t.Fatal(err)
				}
				if want := resultText(version) + "\n"; string(got) != want {
					t.Errorf("result %s, want %s", got, want)
				}
				if got := pod.send(t, lock.SidecarUID, resolvers); got < uint64(burst*len(resolvers)) {
					t.Errorf("%d packets of the sidecar's came out", got)
				}
				// Neighbour discovery may pass; a burst that did would be more.
				if got := pod.send(t, 1000, append(resolvers, others...)); got >= burst {
					t.Errorf("%d packets came out that are not the sidecar's", got)
				}
				if version >= "0.4" {
					if err := p.check(argsOf(pod.path, stdin)); err != nil {
						t.Errorf("CHECK: %v", err)
					}
				}
			})
		}
	}
}

// I2: for an ungoverned pod nothing is opened: not its namespace, which isn't even there, no folder, no socket.
func TestUngovernedPodTouchesNothing(t *testing.T) {
	for _, version := range pass.Versions() {
		p := newPlugin(t, nil)
		args := argsOf("/nowhere", configOf(version, `,"from":"a newer release"`))
		args.Args = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=p;K8S_POD_UID=u1"
		got, err := p.add(t.Context(), args)
		if err != nil || string(got) != resultText(version)+"\n" {
			t.Errorf("%s: got %q, %v", version, got, err)
		}
		if _, err := os.Stat(filepath.Dir(p.States.Folder)); err == nil {
			t.Error("there is a folder")
		}
	}
}

// Of another version than the list's, a result is converted; what can't be is passed on for an ungoverned pod, and refused for a
// governed one before anything is locked. (I2)
func TestResultsOfAnotherVersion(t *testing.T) {
	p := newPlugin(t, nil)
	swap := func(from, to string) *skel.CmdArgs {
		args := argsOf("/nowhere", []byte(strings.Replace(string(configOf(from, "")), from, to, 1)))
		args.Args = "K8S_POD_NAMESPACE=default"
		return args
	}
	got, err := p.add(t.Context(), swap("0.4.0", "1.0.0"))
	if err != nil || !strings.Contains(string(got), `"cniVersion":"1.0.0"`) || strings.Contains(string(got), `"version":"4"`) {
		t.Errorf("got %s, %v", got, err)
	}
	unknown := swap("9.0.0", "1.0.0")
	if got, err := p.add(t.Context(), unknown); err != nil || string(got) != resultText("9.0.0")+"\n" {
		t.Errorf("ungoverned: got %s, %v", got, err)
	}
	unknown.Args = agentsPod
	_, err = p.add(t.Context(), unknown)
	expect(t, err, types.ErrInvalidNetworkConfig, "prevResult")
}

// expect checks an error of the plugin's for its code, its words and that it has a fix.
func expect(t *testing.T, err error, code uint, says string) {
	t.Helper()
	var got *types.Error
	if !errors.As(err, &got) || got.Code != code || !strings.Contains(got.Msg, says) || !strings.HasPrefix(got.Msg, about) || got.Details == "" {
		t.Errorf("got %#v, want code %d and %q, with a fix", err, code, says)
	}
}

// I1: input that can't be used is refused, with code and fix, before anything is locked.
func TestGovernedPodsThatAreRefusedAtOnce(t *testing.T) {
	needRoot(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := string(configOf("1.0.0", ""))
	without := func(part string) []byte { return []byte(strings.Replace(good, part, "", 1)) }
	tests := map[string]struct {
		change func(*skel.CmdArgs)
		code   uint
		says   string
	}{
		"malformed":         {func(a *skel.CmdArgs) { a.StdinData = []byte(`{"type":`) }, types.ErrDecodingFailure, "can't be read"},
		"a list of no kind": {func(a *skel.CmdArgs) { a.StdinData = []byte(`{"governedNamespaces":"agents"}`) }, types.ErrDecodingFailure, "can't be read"},
		"no prevResult":     {func(a *skel.CmdArgs) { a.StdinData = without(`,"prevResult":` + resultText("1.0.0")) }, types.ErrInvalidNetworkConfig, "no prevResult"},
		"an unknown key":    {func(a *skel.CmdArgs) { a.StdinData = configOf("1.0.0", `,"refuses":[]`) }, types.ErrInvalidNetworkConfig, "refuses: unknown key"},
		"no resolvers":      {func(a *skel.CmdArgs) { a.StdinData = without(`"10.96.0.10","fd00:96::a"`) }, types.ErrInvalidNetworkConfig, "resolvers: empty"},
		"metadata allowed":  {func(a *skel.CmdArgs) { a.StdinData = configOf("1.0.0", `,"allowPrivate":["169.254.0.0/16"]`) }, types.ErrInvalidNetworkConfig, "allowPrivate[0]"},
		"no UID":            {func(a *skel.CmdArgs) { a.Args = "K8S_POD_NAMESPACE=agents;K8S_POD_NAME=p" }, types.ErrInvalidEnvironmentVariables, "K8S_POD_UID"},
		"two pods": {func(a *skel.CmdArgs) {
			a.Args = strings.Replace(agentsPod, "K8S_POD_NAMESPACE=agents", "K8S_POD_NAMESPACE=agents;K8S_POD_NAMESPACE=default", 1)
		}, types.ErrInvalidEnvironmentVariables, "each once"},
		"a pod of no namespace": {func(a *skel.CmdArgs) { a.Args = "K8S_POD_NAME=p;K8S_POD_UID=u1" }, types.ErrInvalidEnvironmentVariables, "K8S_POD_NAMESPACE"},
		"annotated twice": {func(a *skel.CmdArgs) {
			a.Args = strings.Replace(agentsPod, "=agents", "=default", 1)
			a.StdinData = configOf("1.0.0", `,"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"holdfast.dev/governed":"true"}},"runtimeConfig":null`)
		}, types.ErrInvalidNetworkConfig, "runtimeConfig"},
		"an id with slashes": {func(a *skel.CmdArgs) { a.ContainerID = "../../etc/x" }, types.ErrInvalidEnvironmentVariables, "container id"},
		"a netns gone":       {func(a *skel.CmdArgs) { a.Netns = "/run/netns/nowhere" }, types.ErrInvalidNetNS, "gone"},
		"a file":             {func(a *skel.CmdArgs) { a.Netns = file }, types.ErrInvalidNetNS, "not a network namespace"},
		"another kind of ns": {func(a *skel.CmdArgs) { a.Netns = "/proc/self/ns/uts" }, types.ErrInvalidNetNS, "not a network namespace"},
		"the host's":         {func(a *skel.CmdArgs) { a.Netns = "/proc/self/ns/net" }, types.ErrInvalidNetNS, "host's"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t, nil)
			args := argsOf(holdNetns(t, false), []byte(good))
			own := args.Netns
			test.change(args)
			got, err := p.add(t.Context(), args)
			expect(t, err, test.code, test.says)
			if got != nil {
				t.Errorf("a result beside the error: %s", got)
			}
			if ids, err := p.States.IDs(); err != nil || len(ids) > 0 {
				t.Errorf("kept: %v, %v", ids, err)
			}
			if _, err := remaining(t, own); !errors.Is(err, lock.ErrNotLocked) {
				t.Errorf("the pod's network: %v", err)
			}
		})
	}
}

// I1: whatever goes wrong once the network is locked, it stays closed; and whether to try again is told by the code.
func TestGovernedPodStaysClosed(t *testing.T) {
	says := func(r *adopt.Refusal) func(context.Context, adopt.Request) error {
		return func(context.Context, adopt.Request) error { return r }
	}
	listening := func(does func(net.Conn)) func(*testing.T, *Plugin) {
		return func(t *testing.T, p *Plugin) {
			p.Socket = filepath.Join(shortDir(t), "s")
			l, err := net.Listen("unix", p.Socket)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				if conn, err := l.Accept(); err == nil {
					does(conn)
					_ = conn.Close()
				}
			}()
		}
	}
	tests := map[string]struct {
		agent func(context.Context, adopt.Request) error
		set   func(*testing.T, *Plugin)
		code  uint
		says  string
	}{
		"no agent":        {nil, nil, types.ErrTryAgainLater, "can't be reached"},
		"a no":            {says(&adopt.Refusal{Code: "ContractBroken", Says: "spec.hostPID: is true", Fix: "remove it"}), nil, CodeRefused, "(ContractBroken): spec.hostPID: is true"},
		"not yet":         {says(&adopt.Refusal{Code: "API", Says: "the API can't be asked", Fix: "wait", Retry: true}), nil, types.ErrTryAgainLater, "(API)"},
		"an agent's fail": {func(context.Context, adopt.Request) error { return errors.New("oh") }, nil, types.ErrTryAgainLater, "oh"},
		"a hung socket":   {nil, listening(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), types.ErrTryAgainLater, "can't be reached"},
		"a lying socket":  {nil, listening(func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")) }), types.ErrTryAgainLater, "isn't the agent"},
		"no folder": {nil, func(t *testing.T, p *Plugin) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			p.States.Folder = filepath.Join(file, "pods")
		}, types.ErrIOFailure, "keep the state"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t, test.agent)
			if test.set != nil {
				test.set(t, &p)
			}
			args := argsOf(holdNetns(t, false), configOf("1.1.0", ""))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			got, err := p.add(ctx, args)
			expect(t, err, test.code, test.says)
			if got != nil {
				t.Errorf("a result beside the error: %s", got)
			}
			if _, err := remaining(t, args.Netns); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("the pod's network: %v", err)
			}
		})
	}
}

// The same ADD of the same sandbox gets the same answer. (I1, N8)
func TestAddAgain(t *testing.T) {
	var asked atomic.Int32
	p := newPlugin(t, func(ctx context.Context, r adopt.Request) error { asked.Add(1); return lend(ctx, r) })
	args := argsOf(holdNetns(t, false), configOf("1.0.0", ""))
	for range 2 {
		if _, err := p.add(t.Context(), args); err != nil {
			t.Fatal(err)
		}
	}
	if asked.Load() != 2 {
		t.Errorf("the agent was asked %d times", asked.Load())
	}
	if left, err := remaining(t, args.Netns); err != nil || left < lock.Lease/2 {
		t.Errorf("the lease: %v, %v", left, err)
	}
}

// N13: once the lease has run out no ADD brings it back.
func TestAddRevivesNothing(t *testing.T) {
	p := newPlugin(t, func(_ context.Context, r adopt.Request) error { return lendFor(r, time.Millisecond) })
	args := argsOf(holdNetns(t, false), configOf("1.0.0", ""))
	if _, err := p.add(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := remaining(t, args.Netns); errors.Is(err, lock.ErrExpired) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	_, err := p.add(t.Context(), args)
	expect(t, err, CodeRefused, "(Expired)")
	p.forget("c1", "eth0")
	_, err = p.add(t.Context(), args)
	expect(t, err, CodeState, "locked already")
	if _, err := remaining(t, args.Netns); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("the pod's network: %v", err)
	}
}

// I1, N13: a namespace that is locked is nobody's whose state doesn't say so, and the agent isn't even asked.
func TestAddAgainIsNotBelieved(t *testing.T) {
	rewrite := func(change func(*adopt.Request)) func(*testing.T, Plugin, *skel.CmdArgs) {
		return func(t *testing.T, p Plugin, _ *skel.CmdArgs) {
			r, err := p.States.Read("c1")
			if err != nil {
				t.Fatal(err)
			}
			change(&r)
			if err := p.States.Write(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		change func(*testing.T, Plugin, *skel.CmdArgs)
		says   string
	}{
		"no state file":  {func(_ *testing.T, p Plugin, _ *skel.CmdArgs) { p.forget("c1", "eth0") }, "no state"},
		"another id":     {func(_ *testing.T, _ Plugin, a *skel.CmdArgs) { a.ContainerID = "c2" }, "no state"},
		"another boot":   {rewrite(func(r *adopt.Request) { r.Boot = "another" }), "another boot"},
		"another inode":  {rewrite(func(r *adopt.Request) { r.Inode++ }), "another network namespace"},
		"another device": {rewrite(func(r *adopt.Request) { r.Device++ }), "another network namespace"},
		"another pod":    {func(_ *testing.T, _ Plugin, a *skel.CmdArgs) { a.Args = strings.Replace(a.Args, "u1", "u2", 1) }, "another pod"},
		"other rules": {func(_ *testing.T, _ Plugin, a *skel.CmdArgs) {
			a.StdinData = configOf("1.0.0", `,"refuse":["8.8.8.0/24"]`)
		}, "has changed"},
		"a record of none": {rewrite(func(r *adopt.Request) { r.Record = []byte(`{}`) }), "record"},
		"tampering":        {func(t *testing.T, _ Plugin, a *skel.CmdArgs) { tamper(t, a.Netns) }, "differ"},
		"truncated": {func(t *testing.T, p Plugin, _ *skel.CmdArgs) {
			if err := os.Truncate(filepath.Join(p.States.Folder, "c1.json"), 100); err != nil {
				t.Fatal(err)
			}
		}, "not a whole state file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			p := newPlugin(t, func(context.Context, adopt.Request) error { asked.Add(1); return errors.New("no") })
			args := argsOf(holdNetns(t, false), configOf("1.0.0", ""))
			if _, err := p.add(t.Context(), args); err == nil {
				t.Fatal("the agent's no was taken for a yes")
			}
			test.change(t, p, args)
			_, err := p.add(t.Context(), args)
			expect(t, err, CodeState, test.says)
			if asked.Load() != 1 {
				t.Errorf("the agent was asked %d times", asked.Load())
			}
			if _, err := remaining(t, args.Netns); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("the pod's network: %v", err)
			}
		})
	}
}

// tamper adds a chain to the lock's table.
func tamper(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	conn, err := nftables.New(nftables.WithNetNSFd(int(file.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	conn.AddChain(&nftables.Chain{Name: "mine", Table: &nftables.Table{Family: nftables.TableFamilyINet, Name: lock.Table}})
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}
