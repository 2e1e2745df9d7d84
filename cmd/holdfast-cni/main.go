// Command holdfast-cni is the CNI plugin that runtimes call last in the chain, once for every pod.
package main

import (
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/holdfast-cni/holdfast/plugin"
)

func main() {
	skel.PluginMainFuncs(plugin.Funcs(), version.PluginSupports(plugin.Versions()...), "holdfast-cni: enforcement behind a cluster's own network plugin")
}
