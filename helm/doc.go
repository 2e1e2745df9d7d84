// Package helm is Holdfast's chart, embedded, and the few things done with a chart: render it without a cluster, install,
// upgrade and uninstall it as a real Helm release.
//
// The chart itself is in the folder holdfast. This is the only package that knows Helm's library and, for it, a
// Kubernetes client.
package helm
