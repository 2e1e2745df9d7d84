// Package agent keeps the governed pods of one node alive, and nothing else does: it adopts those that keep their contract, renews
// their leases, compares their rules with what was recorded at their ADD, cuts off, and finds those that got past the chain.
//
// Each pod that it holds has one goroutine, which alone renews, verifies and cuts it; everything else only asks it to. What the
// kernel and the state files say counts, so that leases are renewed while the API server is away; only adopting asks it.
package agent
