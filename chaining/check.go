package chaining

// Verdict is what Check found.
type Verdict struct {
	Reason      Reason       // Chained, or the first reason that holds
	Differences []Difference // what must change in the list for it to be chained; at most 20; none if Chained
}

// Check says whether a list ends with exactly the entry. Of several reasons the first wins: missing, duplicated,
// differs, not last. Entries are compared as JSON values, because a runtime re-serialises what it loads. The
// differences name places in the list and what to do there: put in, take out, change. A zero List is ListInvalid.
func Check(l List, e Entry) Verdict {
	if len(l.plugins) == 0 {
		return Verdict{Reason: ListInvalid}
	}
	found := l.Find(e.Type())
	switch {
	case len(found) == 0:
		missing := Difference{Path: place(len(l.plugins)), Want: compact(&e.root)}
		return Verdict{Reason: EntryMissing, Differences: []Difference{missing}}
	case len(found) > 1:
		// The last one may be the good one; those before it are the ones to take out.
		return Verdict{Reason: EntryDuplicated, Differences: l.surplus(found[:len(found)-1])}
	}
	at := found[0]
	if differences := diffNodes(place(at), &e.root, &l.plugins[at].root); len(differences) > 0 {
		return Verdict{Reason: EntryDiffers, Differences: differences}
	}
	var after []int
	for i := at + 1; i < len(l.plugins); i++ {
		after = append(after, i)
	}
	if len(after) > 0 {
		return Verdict{Reason: EntryNotLast, Differences: l.surplus(after)}
	}
	return Verdict{Reason: Chained}
}

// surplus are the plugins that must not be where they are.
func (l List) surplus(indexes []int) []Difference {
	var all differences
	for _, i := range indexes {
		all.add(place(i), nil, &l.plugins[i].root)
	}
	return all
}

func place(plugin int) string { return join("plugins", element(plugin)) }
