// Package e2e holds the specs that run on real clusters: kind with the real Cilium, or, where E2E_KUBECONFIG names one, a
// cluster that they did not make; then the specs that need a node's files or processes are left out.
//
// The specs are behind the build tag e2e: make e2e runs them.
package e2e
