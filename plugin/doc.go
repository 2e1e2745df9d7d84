// Package plugin is the CNI plugin holdfast-cni: its configuration and its verbs. It knows nothing of client-go, controller-runtime
// or Cilium, because the binary built from it must be small and start in milliseconds; and a pod that is not governed pays for
// nothing but that start.
package plugin
