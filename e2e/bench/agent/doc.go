// Command agent measures what the node agent costs, and what the lock costs a pod's traffic, and prints one table; it exits 1 if a
// goal is missed.
//
// The agent is the built command, on a real API server and in real network namespaces that it has adopted; only the runtime is a
// stand-in. The run has a mount namespace of its own, so that nothing of the machine's is changed.
package main
