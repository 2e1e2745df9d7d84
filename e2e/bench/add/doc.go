// Command add measures what holdfast-cni costs at ADD, beside the least that a chained plugin in Go costs and beside portmap, and
// prints one table; it exits 1 if a goal is missed.
//
// A machine is fast or slow, busy or idle: the goals are ratios of medians. The measured things take turns, in a new order each
// round, so that a busy moment falls on all of them alike. Everything happens in mount and network namespaces of the run's own, with
// the real paths; nothing of the machine is changed. As on a node, other namespaces
// filter already (lockedNeighbour).
package main
