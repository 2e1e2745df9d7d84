package plugin

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/go-json-experiment/json"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/plugin/pass"
)

// Plugin is the verbs, with where they find the agent and keep their state.
type Plugin struct {
	Socket string
	States adopt.Store
	// Log is for what a runtime is not told: why something failed at DEL or GC.
	Log io.Writer
}

// New is the plugin as it is on a node.
func New() Plugin {
	return Plugin{Socket: adopt.Socket, States: adopt.Store{Folder: adopt.States}, Log: os.Stderr}
}

// Main is called once by a runtime, through environment and standard input, and returns the exit code. On standard output is either
// a result or an error with its code and fix, never both. read is what was read of standard input before.
func (p Plugin) Main(read []byte) int {
	result, err := p.call(read)
	switch command := os.Getenv("CNI_COMMAND"); {
	case err == nil:
		if _, writeErr := os.Stdout.Write(result); writeErr != nil {
			err = errOutput(writeErr)
		}
	case command == "DEL", command == "GC":
		// A pod that can't be removed helps nobody, whatever is wrong with the list.
		p.log(err)
		if command == "DEL" {
			p.forget(os.Getenv("CNI_CONTAINERID"), os.Getenv("CNI_IFNAME"))
		}
		return 0
	}
	if err == nil {
		return 0
	}
	if printErr := fixed(err).Print(); printErr != nil {
		p.log(printErr)
	}
	return 1
}

// call is one verb. It doesn't take skel to understand a plain ADD, and skel takes its time: it reads all anew, and more than once.
func (p Plugin) call(read []byte) (result []byte, err *types.Error) {
	if r, plain := pass.Plain(os.Getenv, read); plain {
		args := skel.CmdArgs{
			ContainerID: os.Getenv("CNI_CONTAINERID"), Netns: os.Getenv("CNI_NETNS"), IfName: os.Getenv("CNI_IFNAME"),
			Args: os.Getenv("CNI_ARGS"), StdinData: read,
		}
		if whose := pass.PodOf(args.Args); r.Governs(whose) {
			err = p.govern(context.Background(), &args, r, whose)
		}
		return r.Same(), err
	}
	if len(read) > 0 {
		if err := putBack(read); err != nil {
			p.log(err)
		}
	}
	err = skel.PluginMainFuncsWithError(skel.CNIFuncs{
		Add:    func(args *skel.CmdArgs) (err error) { result, err = p.add(context.Background(), args); return err },
		Del:    func(args *skel.CmdArgs) error { p.forget(args.ContainerID, args.IfName); return nil },
		Check:  p.check,
		GC:     func(args *skel.CmdArgs) error { p.collect(args.StdinData); return nil },
		Status: p.status,
	}, version.PluginSupports(pass.Versions()...), about+"enforcement behind a cluster's own network plugin")
	return result, err
}

// putBack has skel read again what was read. What it can't be given it finds missing, and fails.
func putBack(read []byte) error {
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	os.Stdin = from
	go func() {
		_, _ = to.Write(read)
		_ = to.Close()
	}()
	return nil
}

// forget is DEL of one interface. The namespace, with its lock, is the runtime's to remove.
func (p Plugin) forget(containerID, ifName string) {
	if err := p.States.Forget(adopt.Attachment{ContainerID: containerID, IfName: ifName}); err != nil {
		p.log(err)
	}
}

// collect is GC of one network: it forgets each of its sandboxes that the runtime doesn't list, and none if it lists none it could
// read (CNI specification, section "GC": cni.dev/valid-attachments). Of a key that stands there twice neither is believed.
func (p Plugin) collect(stdin []byte) {
	var of struct {
		Network     string                `json:"name"`
		Attachments *[]types.GCAttachment `json:"cni.dev/valid-attachments"`
	}
	if err := json.Unmarshal(stdin, &of); err != nil || of.Attachments == nil || of.Network == "" {
		p.log(fmt.Errorf("forget ended sandboxes: no network, or no list of its sandboxes that are valid: %v", err))
		return
	}
	valid := map[adopt.Attachment]bool{}
	for _, a := range *of.Attachments {
		valid[adopt.Attachment{ContainerID: a.ContainerID, IfName: a.IfName}] = true
	}
	if err := p.States.Keep(of.Network, valid); err != nil {
		p.log(err)
	}
}

// status answers what a runtime takes it for: whether any pod can start. It speaks up only if ADD would refuse pods that are not
// governed (docs/adr/0006).
func (p Plugin) status(args *skel.CmdArgs) error {
	if _, err := pass.Parse(args.StdinData); err != nil {
		return fail(types.ErrPluginNotAvailable, "correct plugin.json in Holdfast's ConfigMap", "no pod can start: the configuration can't be read: %v", err)
	}
	return nil
}

// log names the plugin, as errors that are made for a runtime do already.
func (p Plugin) log(err error) {
	_, _ = fmt.Fprintf(p.Log, "%s%s\n", about, strings.TrimPrefix(err.Error(), about))
}
