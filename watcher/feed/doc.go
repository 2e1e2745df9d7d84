// Package feed keeps what a loop looks at as the API server has it, each object by its own name, so that no right to read
// others is needed. See [Feed] for how it differs from a shared informer.
package feed
