package plugin

import (
	"errors"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/plugin/pass"
)

// check is CHECK: a sandbox that was locked must still hold its lock, also if its namespace is governed no more; one that is governed
// must have been locked. Of any other there is nothing to say.
func (p Plugin) check(args *skel.CmdArgs) error {
	r, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	whose := pass.PodOf(args.Args)
	state, err := p.States.Read(args.ContainerID)
	if errors.Is(err, adopt.ErrNoState) && !r.Governs(whose) {
		return nil
	}
	if err != nil {
		return fail(CodeState, "delete the pod", "pod %s can't be checked: %v", whose, err)
	}
	netns, err := lock.Open(args.Netns)
	if err != nil {
		return errNetns(whose, err)
	}
	defer func() { _ = netns.Close() }() // it was only read
	if err := p.verify(netns, state); err != nil {
		return errChecked(whose, err)
	}
	return nil
}
