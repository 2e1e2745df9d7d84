// Package contract is what a governed pod must be, so that its lock and its sidecar hold: a pod and a policy in, sentences out. It
// asks nobody and changes nothing; the agent and admission both judge by it.
package contract
