package main

import (
	"github.com/holdfast-cni/holdfast/chaining"
	"github.com/holdfast-cni/holdfast/plugin"
)

// checkPlugin refuses a plugin.json of ours that plugin.Config refuses. Another vendor's entry is that vendor's matter.
func checkPlugin(data []byte, reserved ...string) error {
	entry, err := chaining.ParseEntry(data)
	if err != nil || entry.Type() != plugin.Type {
		return err
	}
	_, err = plugin.ParseConfig(data, reserved...)
	return err
}
