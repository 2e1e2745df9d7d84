package adopt

import "errors"

var (
	// ErrUnreachable means that no agent answered in time.
	ErrUnreachable = errors.New("the node agent can't be reached; see that the DaemonSet agent runs on this node, the runtime tries the pod again")
	// ErrAnswer means that something answered, but not as the agent does.
	ErrAnswer = errors.New("what answers on the agent's socket isn't the agent; see what else listens there, and restart the DaemonSet agent on this node")
	// ErrRequest means that bytes are not a request.
	ErrRequest = errors.New("not a request to adopt a pod; use holdfast-cni and agent of one release")
	// ErrPeer means that the other end of a socket is not root's.
	ErrPeer = errors.New("the other end isn't root's; only root may use the agent's socket")
	// ErrInUse means that another agent listens on the socket.
	ErrInUse = errors.New("another agent holds the socket; wait until it has ended")
	// ErrUnsafe means that a folder is not root's alone.
	ErrUnsafe = errors.New("not a folder of root's own; remove what is there")
	// ErrNoState means that there is no file of this container.
	ErrNoState = errors.New("no state of this container is kept; it got past the chain, or its file was removed: delete the pod")
	// ErrState means that a state file can't be read as one.
	ErrState = errors.New("not a whole state file of this container; delete the pod")
	// ErrWhose means that it isn't known to which interface a state file belongs.
	ErrWhose = errors.New("it isn't known whether the state file is of this interface; it stays until the node restarts")
	// ErrOtherBoot means that a state file was written before the node was started.
	ErrOtherBoot = errors.New("the state file is of another boot; delete the pod")
	// ErrOtherNamespace means that a state file is about another network namespace.
	ErrOtherNamespace = errors.New("the state file is of another network namespace; delete the pod")
)

// Refusal is the agent's no. It is an error as it stands, and is found with errors.As.
type Refusal struct {
	// Code is one word for metrics, such as ContractBroken.
	Code string `json:"code"`
	// Says is one sentence on what is wrong, Fix what to do about it; neither with its full stop.
	Says string `json:"says"`
	Fix  string `json:"fix"`
	// Retry means that the same pod may be adopted a little later: nothing is wrong with it.
	Retry bool `json:"retry,omitempty"`
}

func (r *Refusal) Error() string { return r.Says + "; " + r.Fix }
