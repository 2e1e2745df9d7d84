package agent

import (
	"encoding/json"
	"fmt"
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
	all     contract.Policy
	unsaved bool
}

func openPolicies(folder string) *policies {
	p := &policies{path: filepath.Join(folder, "policies.json")}
	if data, err := readSmall(p.path); err != nil || json.Unmarshal(data, &p.all) != nil {
		p.all = contract.Policy{}
	}
	return p
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
		return p.all, nil
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
	return p.all, err
}

// remembered is what was in force, for when what is in force can't be known; false if nothing is remembered.
func (p *policies) remembered() (contract.Policy, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all, p.size() > 0
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
