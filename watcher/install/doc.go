// Package install keeps the plugin chained on one node, proves it at the runtime, and opens and closes the node: it is
// what install-cni runs.
//
// One loop: any event (the CNI directories, the runtime's connection, the API server's objects, the clock), then a look at
// everything, then only what differs is written. The disk is guarded while the API server is away. Nothing is undone
// when the process ends; only the removal of the node's label, or the release's leaving, takes the chain out.
package install
