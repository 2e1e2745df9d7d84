package install

import (
	"testing"
	"time"

	"github.com/holdfast-cni/holdfast/chaining"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at feeds the gate one verdict at a number of milliseconds and returns what it wants.
func (g *gate) at(ms int, reason chaining.Reason) (open bool, next time.Duration) {
	next = g.observe(start.Add(time.Duration(ms)*time.Millisecond), reason)
	return g.open, next
}

func TestN3ANodeOpensOnProofAndClosesWithinASecondOfLosingIt(t *testing.T) {
	var g gate
	if open, _ := g.at(0, chaining.Starting); open {
		t.Fatal("open without proof")
	}
	if open, _ := g.at(10, chaining.Chained); !open {
		t.Fatal("closed though proved")
	}
	open, next := g.at(1000, chaining.EntryMissing)
	if !open || next != grace {
		t.Fatalf("a first loss: open %v, next look in %v; want open, and one after %v", open, next, grace)
	}
	if open, _ = g.at(1500, chaining.EntryMissing); open || g.reason != chaining.EntryMissing {
		t.Fatalf("open %v with reason %q after the proof was gone for %v", open, g.reason, grace)
	}
	if open, _ = g.at(1600, chaining.Chained); !open {
		t.Fatal("not open again at once")
	}
}

func TestAShortLossClosesNothing(t *testing.T) {
	g := gate{open: true}
	for _, ms := range []int{0, 10_000, 20_000, 30_000} {
		g.at(ms, chaining.EntryDiffers)
		if open, _ := g.at(ms+100, chaining.Chained); !open {
			t.Fatalf("closed after %d ms", ms+100)
		}
	}
}

func TestAHostileNeighbourClosesTheNodeUntilItStops(t *testing.T) {
	g := gate{open: true}
	closed, flips, was := 0, 0, true
	for ms := 0; ms < 10_000; ms += 50 {
		reason := chaining.Chained
		if ms/50%2 == 0 {
			reason = chaining.EntryDiffers
		}
		open, _ := g.at(ms, reason)
		if !open {
			closed++
		}
		if open != was {
			flips, was = flips+1, open
		}
	}
	if flips != 1 || closed < 180 {
		t.Errorf("closed in %d of 200 looks, with %d changes; want it closed once, early, for good", closed, flips)
	}
	_, next := g.at(10_000, chaining.Chained)
	if next <= 0 || next > hold {
		t.Fatalf("the next look is in %v, want one within %v", next, hold)
	}
	if open, _ := g.at(10_000+int(next.Milliseconds())+60, chaining.Chained); !open {
		t.Error("not open 2 s after the neighbour stopped")
	}
}

func TestNudgesGetRarer(t *testing.T) {
	var n nudger
	var at []int
	for s := 0; s < 200; s++ {
		if due, _ := n.due(start.Add(time.Duration(s) * time.Second)); due {
			at = append(at, s)
		}
	}
	want := []int{1, 3, 7, 15, 31, 61, 121, 181}
	if len(at) != len(want) {
		t.Fatalf("nudged after %v s, want %v", at, want)
	}
	for i := range want {
		if at[i] != want[i] {
			t.Fatalf("nudged after %v s, want %v", at, want)
		}
	}
	n.healed()
	if due, next := n.due(start); due || next != time.Second {
		t.Errorf("after healing: due %v, next %v; want a second's wait", due, next)
	}
}
