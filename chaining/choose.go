package chaining

import "fmt"

// Strategy is a way to get an entry into the list that a runtime loads, and to keep it there.
type Strategy string

// The strategies, the best first.
const (
	// ByCilium: Cilium writes the list, from Holdfast's ConfigMap. The node writes nothing.
	ByCilium Strategy = "cilium"
	// ByDropin: a file of Holdfast's own, in the network's drop-in directory.
	ByDropin Strategy = "drop-in"
	// ByList: a list of Holdfast's own that sorts first: the primary one with the entry appended.
	ByList Strategy = "list"
)

// MaxRemovals is how many removals of Holdfast's own list within ten minutes are taken before the strategy is refused.
const MaxRemovals = 3

// Facts are what the strategy is chosen from.
type Facts struct {
	// Forced is the strategy that the operator asks for (chain.strategy); empty: choose.
	Forced Strategy
	// ConfigMapUsed: Cilium's agent on this node is configured to read Holdfast's ConfigMap.
	ConfigMapUsed bool
	// Dropins: the runtime reads them.
	Dropins bool
	// NoDropins is why the primary list takes none, though the runtime reads them; empty: it takes them.
	NoDropins string
	// Removals of Holdfast's own list within ten minutes.
	Removals int
}

// Choice is a strategy, and why it is the one.
type Choice struct {
	Strategy Strategy
	Why      string
	// Refused is why nothing is to be written for it; Chained where nothing speaks against it.
	Refused Reason
}

// Choose picks the strategy for a node. A forced one is refused rather than replaced where it cannot work.
func Choose(f Facts) Choice {
	switch {
	case f.Forced == ByCilium || f.Forced == "" && f.ConfigMapUsed:
		return chooseCilium(f)
	case f.Forced == ByDropin || f.Forced == "" && f.noDropins() == "":
		return chooseDropin(f)
	}
	return chooseList(f)
}

func chooseCilium(f Facts) Choice {
	c := Choice{Strategy: ByCilium, Why: "Cilium reads Holdfast's ConfigMap and writes the list itself"}
	if f.Forced != "" {
		c.Why = forced(f.Forced)
	}
	if !f.ConfigMapUsed {
		c.Refused = CiliumConfigMapNotUsed
	}
	return c
}

func chooseDropin(f Facts) Choice {
	c := Choice{Strategy: ByDropin, Why: "the runtime appends the files of the network's drop-in directory to the list, and nobody else writes there"}
	if f.Forced != "" {
		c.Why = forced(f.Forced)
	}
	if no := f.noDropins(); no != "" {
		c.Why, c.Refused = c.Why+", but "+no, StrategyRefused
	}
	return c
}

func chooseList(f Facts) Choice {
	c := Choice{Strategy: ByList, Why: f.noDropins()}
	if f.Forced != "" {
		c.Why = forced(f.Forced)
	}
	if f.Removals >= MaxRemovals {
		c.Why = fmt.Sprintf("%s; the list was removed %d times in ten minutes", c.Why, f.Removals)
		c.Refused = StrategyRefused
	}
	return c
}

func (f Facts) noDropins() string {
	if !f.Dropins {
		return "the runtime reads no drop-ins"
	}
	return f.NoDropins
}

func forced(s Strategy) string { return "chain.strategy says " + string(s) }

// Valid reports whether there is such a strategy.
func (s Strategy) Valid() bool { return s == ByCilium || s == ByDropin || s == ByList }
