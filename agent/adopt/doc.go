// Package adopt is what holdfast-cni and the node agent say to each other: one request and one reply over a unix socket, and a
// file per pod that outlives both. Length-prefixed lines of JSON, and the standard library alone, because every start of the plugin pays
// for what it links.
package adopt
