package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/holdfast-cni/holdfast/agent/contract"
)

// policies are all that were in force on this node since its boot, as one. A running pod is judged by them: one that was adopted
// with an image that plugin.json no longer lists is not broken by an upgrade. New pods are judged by what is in force.
type policies struct {
	path string

	mu      sync.Mutex
	all     allowed
	unsaved bool
}

// allowed is what the file says.
type allowed struct {
	contract.Policy
	// Incomplete says that what was in force earlier is lost.
	Incomplete bool `json:",omitempty"`
}

// openPolicies reads what is remembered. What can't be read is an error. The memory is incomplete then, which this process remembers
// too: until the node's next boot no running pod is cut off because its policy isn't in it.
func openPolicies(folder string) (*policies, error) {
	p := &policies{path: filepath.Join(folder, "policies.json")}
	data, err := readWhole(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &p.all)
	}
	if err != nil {
		p.all, p.unsaved = allowed{Incomplete: true}, true
		err = fmt.Errorf("read what pods were allowed: %w", err)
	}
	return p, err
}

// with adds what is in force, and returns all.
func (p *policies) with(now contract.Policy) (contract.Policy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := p.size()
	p.all.Images = union(p.all.Images, now.Images)
	p.all.SeccompProfiles = union(p.all.SeccompProfiles, now.SeccompProfiles)
	p.all.RuntimeClasses = union(p.all.RuntimeClasses, now.RuntimeClasses)
	if p.size() == size && !p.unsaved {
		return p.all.Policy, nil
	}
	data, err := json.Marshal(p.all)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(p.path), 0o700)
	}
	if err == nil {
		err = writeSynced(filepath.Dir(p.path), filepath.Base(p.path), data)
	}
	p.unsaved = err != nil
	if err != nil {
		err = fmt.Errorf("remember what pods were allowed: %w", err)
	}
	return p.all.Policy, err
}

// whole reports whether what is remembered is all that was in force.
func (p *policies) whole() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.all.Incomplete
}

// remembered is what was in force, for when what is in force can't be known; false if nothing is remembered, or not all.
func (p *policies) remembered() (contract.Policy, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Policy, p.size() > 0 && !p.all.Incomplete
}

func (p *policies) size() int {
	return len(p.all.Images) + len(p.all.SeccompProfiles) + len(p.all.RuntimeClasses)
}

// union never changes what a was: others read it.
func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(slices.Clip(a), s)
		}
	}
	return a
}
