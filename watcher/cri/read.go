package cri

import (
	"encoding/json"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/watcher/node"
)

// Names that runtimes give themselves, and keys of the verbose status (containerd v2.4.2, internal/cri/server/status.go).
// CRI-O tells nothing of its network but whether it is ready (CRI-O, server/runtime_status.go).
const (
	crioName      = "cri-o"
	configKey     = "cniconfig"
	loadStatusKey = "lastCNILoadStatus"
	loadedWell    = "OK"
	loopback      = "lo"
)

// config is go-cni's ConfigResult (go-cni v1.1.14, cni.go), which has no JSON tags.
type config struct {
	PluginDirs    []string
	PluginConfDir string
	Networks      []struct {
		IFName string
		Config struct {
			Name, CNIVersion string
			Plugins          []struct{ Source string }
		}
	}
}

func read(socket string, version *runtimeapi.VersionResponse, said *runtimeapi.StatusResponse) *node.Answer {
	a := &node.Answer{Socket: socket, Runtime: version.GetRuntimeName(), Version: version.GetRuntimeVersion()}
	if a.Runtime == crioName {
		a.Runtime = node.CRIO
	}
	for _, c := range said.GetStatus().GetConditions() {
		if c.GetType() == runtimeapi.NetworkReady && !c.GetStatus() {
			a.NotReady = c.GetReason() + ": " + c.GetMessage()
		}
	}
	if s := said.GetInfo()[loadStatusKey]; s != loadedWell {
		a.Failure = s
	}
	text, tells := said.GetInfo()[configKey]
	if !tells {
		return a
	}
	a.Tells = true
	var c config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		a.LoadedErr = fmt.Errorf("its %s: %w", configKey, err)
		return a
	}
	a.ConfDir, a.BinDirs = c.PluginConfDir, c.PluginDirs
	a.Loaded, a.LoadedErr = loaded(c)
	return a
}

// loaded puts the list together again that pods' first interface gets; nil where there is none.
func loaded(c config) (*chaining.List, error) {
	for _, network := range c.Networks {
		if network.IFName == loopback {
			continue
		}
		text := struct {
			CNIVersion string            `json:"cniVersion,omitempty"`
			Name       string            `json:"name"`
			Plugins    []json.RawMessage `json:"plugins"`
		}{CNIVersion: network.Config.CNIVersion, Name: network.Config.Name}
		for _, p := range network.Config.Plugins {
			text.Plugins = append(text.Plugins, json.RawMessage(p.Source))
		}
		data, err := json.Marshal(text)
		if err != nil {
			return nil, fmt.Errorf("network %q: %w", network.Config.Name, err)
		}
		list, err := chaining.Parse(data)
		if err != nil {
			return nil, fmt.Errorf("network %q: %w", network.Config.Name, err)
		}
		return &list, nil
	}
	return nil, nil
}
