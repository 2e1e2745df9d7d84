// Package cri asks a node's container runtime, over its CRI socket, where it looks for CNI configuration and what it has
// loaded. A list on disk proves nothing: a runtime can miss it.
package cri
