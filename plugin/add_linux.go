package plugin

import (
	"context"
	"errors"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
	"github.com/holdfast-cni/holdfast/plugin/pass"
)

// add returns what ADD prints. For a pod that is not governed that is all it does: no lock, no file, no socket.
func (p Plugin) add(ctx context.Context, args *skel.CmdArgs) ([]byte, error) {
	r, err := parse(args.StdinData)
	if err != nil {
		return nil, err
	}
	whose := pass.PodOf(args.Args)
	governed := r.Governs(whose)
	result, err := resultOf(r)
	if err != nil && r.HasResult() && !governed {
		// What can't be converted is passed on as it came: to judge it is up to the runtime.
		return r.Same(), nil
	}
	if err != nil || !governed {
		return result, err
	}
	if err := p.govern(ctx, args, r, whose); err != nil {
		return nil, err
	}
	return result, nil
}

// govern locks the pod's network and has the agent adopt it. From the moment that the lock is on until the agent has added the lease,
// and after any error, nothing passes but loopback.
func (p Plugin) govern(ctx context.Context, args *skel.CmdArgs, r pass.Request, whose pass.Pod) *types.Error {
	switch {
	case whose.Unclear || whose.Namespace == "" || whose.Name == "" || whose.UID == "":
		return errIdentity("K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID in CNI_ARGS, each once")
	case !adopt.SafeID(args.ContainerID):
		return errIdentity("a container id")
	}
	rules, err := rulesOf(args.StdinData)
	if err != nil {
		return errConfig(whose, err)
	}
	netns, err := lock.Open(args.Netns)
	if err != nil {
		return errNetns(whose, err)
	}
	request, failed := p.lock(netns, rules, adopt.Request{
		Version: adopt.Version, ContainerID: args.ContainerID, NetNS: netns.Path(), Network: r.Name, IfName: args.IfName,
		Device: netns.ID().Device, Inode: netns.ID().Inode, Namespace: whose.Namespace, Name: whose.Name, UID: whose.UID, Rules: rules.Digest(),
	}, whose)
	// Now, and not at the end: once the agent has changed anything, the kernel lets nobody close a netfilter socket of the namespace
	// before an RCU grace period is over, which takes milliseconds (nf_tables_api.c: nft_rcv_nl_event). Nothing was written that
	// closing could lose.
	_ = netns.Close()
	if failed != nil {
		return failed
	}
	if err := request.Adopt(ctx, p.Socket); err != nil {
		return errAdopt(whose, err)
	}
	return nil
}

// lock puts the lock on and keeps the request, with what the kernel then held.
func (p Plugin) lock(netns *lock.Namespace, rules lock.Rules, request adopt.Request, whose pass.Pod) (encoded adopt.Encoded, failed *types.Error) {
	var err error
	if request.Boot, err = adopt.Boot(); err != nil {
		return adopt.Encoded{}, errState(whose, err)
	}
	record, err := netns.Apply(rules)
	switch {
	case errors.Is(err, lock.ErrLocked):
		return p.again(netns, request, whose)
	case errors.Is(err, lock.ErrDiffers):
		return adopt.Encoded{}, errLock(whose, errors.Join(err, netns.Cut("the kernel didn't take the rules as they were meant")))
	case err != nil:
		return adopt.Encoded{}, errLock(whose, err)
	}
	if request.Record, err = record.MarshalJSON(); err == nil {
		encoded, err = request.Encode()
	}
	if err == nil {
		err = p.States.WriteEncoded(encoded)
	}
	if err != nil {
		return adopt.Encoded{}, errState(whose, err)
	}
	return encoded, nil
}

// again is ADD of a namespace that is locked. A runtime that repeats the ADD of a sandbox may have its answer if everything is as this
// sandbox's first ADD left it, and so may one that adds another interface: the lock is the namespace's, and its state stays that of the
// first, of whatever network. Whether the lease may still be had is then for the agent to say. Whatever else is there, the plugin
// didn't finish, or somebody else's table: that pod stays closed, and the runtime makes a new sandbox.
func (p Plugin) again(netns *lock.Namespace, asked adopt.Request, whose pass.Pod) (adopt.Encoded, *types.Error) {
	r, err := p.States.Read(asked.ContainerID)
	if err != nil {
		return adopt.Encoded{}, errAgain(whose, err)
	}
	if r.Namespace != asked.Namespace || r.Name != asked.Name || r.UID != asked.UID {
		return adopt.Encoded{}, errAgain(whose, errors.New("it was put on for another pod"))
	}
	if r.Rules != asked.Rules {
		return adopt.Encoded{}, errAgain(whose, errors.New("plugin.json has changed meanwhile, or is another network's"))
	}
	if err := p.verify(netns, r); err != nil {
		return adopt.Encoded{}, errAgain(whose, err)
	}
	encoded, err := r.Encode()
	if err != nil {
		return adopt.Encoded{}, errAgain(whose, err)
	}
	return encoded, nil
}

// verify compares the kernel with what was kept, if that is about this namespace.
func (p Plugin) verify(netns *lock.Namespace, r adopt.Request) error {
	if err := r.In(netns.ID().Device, netns.ID().Inode); err != nil {
		return err
	}
	record, err := lock.ParseRecord(r.Record)
	if err != nil {
		return err
	}
	return netns.Verify(record)
}
