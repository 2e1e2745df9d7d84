package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-cni/holdfast/agent/adopt"
	"github.com/holdfast-cni/holdfast/lock"
)

// twice is how often a lease must have been renewed before the next node's agent may be replaced (N19).
const twice = 2

// ready says why the agent isn't: an update of the DaemonSet goes on to the next node only once this one's agent has renewed every
// lease twice and could do the rest of its work too.
func (a *agent) ready() error {
	if err := a.world.read(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.restored:
		return errors.New("the pods of this node were not taken up yet")
	case a.swept.IsZero():
		return errors.New("what runs was not compared with what is locked yet")
	case time.Since(a.swept) > late:
		return fmt.Errorf("what runs was last compared with what is locked %v ago", time.Since(a.swept).Truncate(time.Second))
	}
	if !a.renewed {
		for _, p := range a.waiting {
			if n := p.renewals.Load(); n < twice && a.pods[p.container] == p {
				return fmt.Errorf("the lease of pod %s/%s was renewed %d times of %d", p.namespace, p.name, n, twice)
			}
		}
		a.renewed, a.waiting = true, nil
	}
	now := time.Since(a.started)
	for _, p := range a.pods {
		if age := now - time.Duration(p.last.Load()); age > late {
			return fmt.Errorf("the lease of pod %s/%s was last renewed %v ago", p.namespace, p.name, age.Truncate(time.Second))
		}
	}
	return nil
}

// state is what metrics say of the pods now.
func (a *agent) state() state {
	s := state{marks: a.marks.pending(), ready: a.ready() == nil}
	now := time.Since(a.started)
	for _, p := range a.all() {
		age := now - time.Duration(p.last.Load())
		s.pods++
		if age < lock.Lease {
			s.leases++
		}
		s.oldest = max(s.oldest, age.Seconds())
	}
	return s
}

func isInUse(err error) bool { return errors.Is(err, adopt.ErrInUse) }
