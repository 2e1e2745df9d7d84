package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/holdfast-cni/holdfast/agent/adopt"
)

// I1: CHECK sees a lock that isn't as it was put on.
func TestCheck(t *testing.T) {
	tests := map[string]struct {
		change func(*testing.T, Plugin, *skel.CmdArgs)
		code   uint // 0 for none
		says   string
	}{
		"as it was":       {func(*testing.T, Plugin, *skel.CmdArgs) {}, 0, ""},
		"no longer ruled": {ungoverned, 0, ""},
		"never locked, nor to be": {func(t *testing.T, p Plugin, a *skel.CmdArgs) {
			ungoverned(t, p, a)
			p.forget("c1", "eth0")
			a.Netns = "/nowhere"
		}, 0, ""},
		"got past the chain": {func(_ *testing.T, p Plugin, _ *skel.CmdArgs) { p.forget("c1", "eth0") }, CodeState, "no state"},
		"tampering":          {func(t *testing.T, _ Plugin, a *skel.CmdArgs) { tamper(t, a.Netns) }, CodeLock, "differ"},
		"tampering with one no longer ruled": {func(t *testing.T, p Plugin, a *skel.CmdArgs) {
			ungoverned(t, p, a)
			tamper(t, a.Netns)
		}, CodeLock, "differ"},
		"another network": {func(t *testing.T, _ Plugin, a *skel.CmdArgs) { a.Netns = holdNetns(t, false) }, CodeLock, "another network namespace"},
		"a network gone":  {func(_ *testing.T, _ Plugin, a *skel.CmdArgs) { a.Netns = "/nowhere" }, types.ErrInvalidNetNS, "gone"},
		"malformed":       {func(_ *testing.T, _ Plugin, a *skel.CmdArgs) { a.StdinData = nil }, types.ErrDecodingFailure, "can't be read"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPlugin(t, lend)
			args := argsOf(holdNetns(t, false), configOf("1.1.0", ""))
			if _, err := p.add(t.Context(), args); err != nil {
				t.Fatal(err)
			}
			test.change(t, p, args)
			err := p.check(args)
			if test.code == 0 && err != nil {
				t.Errorf("got %v", err)
			} else if test.code != 0 {
				expect(t, err, test.code, test.says)
			}
		})
	}
}

func ungoverned(_ *testing.T, _ Plugin, a *skel.CmdArgs) {
	a.Args = strings.Replace(a.Args, "=agents", "=default", 1)
}

// I2: DEL and GC forget what they are about, and nothing else.
func TestDeleteAndCollect(t *testing.T) {
	p := newPlugin(t, nil)
	keep := func(ids ...string) {
		t.Helper()
		boot, err := adopt.Boot()
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			r := adopt.Request{
				Version: adopt.Version, ContainerID: id, NetNS: "/x", Network: "cilium", IfName: "eth0", Inode: 1, Boot: boot,
				Namespace: "a", Name: "p", UID: "u", Rules: "r", Record: []byte("{}"),
			}
			if err := p.States.Write(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	expectIDs := func(want ...string) {
		t.Helper()
		got, err := p.States.IDs()
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("kept %v, %v; want %v", got, err, want)
		}
	}
	collect := func(rest string) { p.collect([]byte(`{"cniVersion":"1.1.0","name":"cilium",` + rest + `}`)) }
	p.forget("c1", "eth0") // before there is a folder
	collect(`"cni.dev/valid-attachments":[]`)
	keep("c1", "c2", "c3", "c4")
	p.forget("c1", "eth0")
	p.forget("c1", "eth0")
	p.forget("../pods/c2", "eth0")
	p.forget("c2", "eth1")
	p.forget("c2", "")
	expectIDs("c2", "c3", "c4")
	for _, unread := range []string{
		``, `{`, `{}`, `{"cni.dev/valid-attachments":[]}`, `{"name":"","cni.dev/valid-attachments":[]}`, `{"name":["cilium"],"cni.dev/valid-attachments":[]}`,
		`{"name":"other","cni.dev/valid-attachments":[]}`, `{"name":"cilium"}`, `{"name":"cilium","cni.dev/valid-attachments":null}`,
		`{"name":"cilium","cni.dev/valid-attachments":"c2"}`, `{"name":"other","name":"cilium","cni.dev/valid-attachments":[]}`,
		`{"name":"cilium","cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth0"}],"cni.dev/valid-attachments":[]}`,
		`{"name":"cilium","CNI.dev/valid-attachments":[]}`, `{"Name":"cilium","cni.dev/valid-attachments":[]}`,
	} {
		p.collect([]byte(unread))
		expectIDs("c2", "c3", "c4")
	}
	collect(`"cni.dev/valid-attachments":[{"containerID":"c2","ifname":"eth0"},{"containerID":"c2","ifname":"eth1"},{"containerID":"c3","ifname":"eth1"},{"containerID":"c9","ifname":"eth0"}]`)
	expectIDs("c2")
	collect(`"cni.dev/valid-attachments":[]`)
	expectIDs()
}

// A sandbox with two interfaces has one lock, and its state is the first one's: what becomes of the second is nothing to it. (I1)
func TestASecondInterface(t *testing.T) {
	var asked []adopt.Request
	p := newPlugin(t, func(ctx context.Context, r adopt.Request) error { asked = append(asked, r); return lend(ctx, r) })
	first := argsOf(holdNetns(t, false), configOf("1.1.0", ""))
	second := *first
	second.IfName, second.StdinData = "eth1", bytes.Replace(first.StdinData, []byte(`"name":"cilium"`), []byte(`"name":"other"`), 1)
	both := func(does func(*skel.CmdArgs) error) {
		t.Helper()
		for _, args := range []*skel.CmdArgs{first, &second} {
			if err := does(args); err != nil {
				t.Errorf("%s: %v", args.IfName, err)
			}
		}
	}
	both(func(args *skel.CmdArgs) error { _, err := p.add(t.Context(), args); return err })
	if len(asked) != 2 || asked[0].Network != "cilium" || asked[0].IfName != "eth0" || asked[1].Network != "cilium" || asked[1].IfName != "eth0" {
		t.Errorf("the agent was asked %d times; last of %s on %s", len(asked), asked[len(asked)-1].IfName, asked[len(asked)-1].Network)
	}
	both(p.check)
	p.forget("c1", "eth1")
	p.collect([]byte(`{"name":"other","cni.dev/valid-attachments":[]}`))
	both(p.check)
	if _, err := remaining(t, first.Netns); err != nil {
		t.Errorf("the lease: %v", err)
	}
	p.forget("c1", "eth0")
	expect(t, p.check(first), CodeState, "no state")
}

func TestLogNamesThePluginOnce(t *testing.T) {
	var log bytes.Buffer
	p := Plugin{Log: &log}
	p.log(errNoPrevResult())
	p.log(errors.New("oh"))
	for _, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		if !strings.HasPrefix(line, about) || strings.Count(line, about) != 1 {
			t.Error(line)
		}
	}
}

// I2: STATUS closes a node only if no pod could start on it.
func TestStatus(t *testing.T) {
	p := newPlugin(t, nil)
	for name, stdin := range map[string]string{
		"good, and no agent": string(configOf("1.1.0", "")),
		"unknown keys":       string(configOf("1.1.0", `,"from":"a newer release"`)),
		"governs badly":      `{"governedNamespaces":["agents"],"resolvers":5}`,
		"nothing":            `{}`,
	} {
		if err := p.status(&skel.CmdArgs{StdinData: []byte(stdin)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, stdin := range []string{`{"governedNamespaces":"agents"}`, `[]`, fmt.Sprintf(`{"governedNamespaces":[%d]}`, 1)} {
		err := p.status(&skel.CmdArgs{StdinData: []byte(stdin)})
		expect(t, err, types.ErrPluginNotAvailable, "no pod can start")
		for _, once := range []string{about, "correct plugin.json"} {
			if strings.Count(err.Error(), once) != 1 {
				t.Errorf("%q stands more than once, or not: %v", once, err)
			}
		}
	}
}
