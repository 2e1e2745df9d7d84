// Package plugin is the CNI plugin holdfast-cni: its configuration and, later, its verbs. It knows nothing of
// client-go, controller-runtime or Cilium, because the binary built from it must be small and start in milliseconds.
package plugin
