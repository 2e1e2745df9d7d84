// Package node looks at one node: where its runtime reads CNI configuration, what it would load, whether the plugin's
// entry is chained in it, and what to do where it is not. The host's files come in as an [io/fs.FS] rooted at the host's
// root, or at a copy of it; nothing is written. What is proved of files only (proof: file) is not proved of the runtime, which
// can miss a file that is there; what it says for itself comes in as an [Answer] (proof: runtime).
package node
