// Package cluster is the cluster watcher. It owns the ConfigMap that Cilium reads its CNI list from, repairs it, reports
// what is wrong with Cilium's configuration, and asks kubelets to sync a changed list at once. Each node chooses and
// proves its chain by itself; nothing here looks at a node's files.
package cluster
