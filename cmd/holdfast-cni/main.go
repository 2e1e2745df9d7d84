// Command holdfast-cni is the CNI plugin that runtimes call last in the chain, once for every pod.
package main

import (
	"os"

	"github.com/holdfast-cni/holdfast/cmd/holdfast-cni/first"
	"github.com/holdfast-cni/holdfast/plugin"
)

func main() { os.Exit(plugin.New().Main(first.Stdin)) }
