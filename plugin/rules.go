package plugin

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdfast-cni/holdfast/lock"
)

// entry is plugin.json with what a runtime adds when it calls the plugin (libcni: buildOneConfig, injectRuntimeConfig).
type entry struct {
	Config
	CNIVersion    string         `json:"cniVersion"`
	Name          string         `json:"name"`
	PrevResult    jsontext.Value `json:"prevResult"`
	RuntimeConfig jsontext.Value `json:"runtimeConfig"`
}

// rulesOf makes a governed pod's rules from the whole configuration: what isn't known there might be meant to refuse more.
func rulesOf(stdin []byte) (lock.Rules, error) {
	var e entry
	if err := json.Unmarshal(stdin, &e, json.RejectUnknownMembers(true)); err != nil {
		return lock.Rules{}, fmt.Errorf("plugin.json: %w", explain(err))
	}
	if err := e.Validate(); err != nil {
		return lock.Rules{}, err
	}
	return lock.Build(e.locked())
}

// locked is what the lock is made from; values that Validate refuses are left out.
func (c Config) locked() lock.Config {
	l := lock.Config{UID: lock.SidecarUID, GID: lock.SidecarGID, HealthPort: lock.HealthPort}
	for _, text := range c.Resolvers {
		if addr, err := netip.ParseAddr(text); err == nil {
			l.Resolvers = append(l.Resolvers, addr)
		}
	}
	l.AllowPrivate, l.Refuse = ranges(c.AllowPrivate), ranges(c.Refuse)
	for _, port := range c.Ingress.Ports {
		l.IngressPorts = append(l.IngressPorts, uint16(port))
	}
	return l
}

func ranges(texts []string) (all []netip.Prefix) {
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

// refusedByLock adds what the lock refuses of values that are well formed. Its paths are plugin.json's own, as its lists have the same
// names and, since nothing was left out, the same places.
func (f *faults) refusedByLock(c Config) {
	err := c.locked().Validate()
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		if err != nil {
			*f = append(*f, errors.New("plugin.json: "+strings.TrimPrefix(err.Error(), "lock: ")))
		}
	}
}
