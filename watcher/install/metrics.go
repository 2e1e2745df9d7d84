package install

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-cni/holdfast/chaining"
)

// metrics are those of one node.
type metrics struct {
	removals, closed         prometheus.Counter
	isOpen                   prometheus.Gauge
	reason, proof, strategy  *prometheus.GaugeVec
	repairs, nudges, patches *prometheus.CounterVec
	last                     time.Time
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		isOpen: prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_node_open", Help: "1 while the node's chain is confirmed and the node open, else 0."}),
		reason: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_node_reason",
			Help: "1 for the reason why the chain is not confirmed now; none while it is."}, []string{"reason"}),
		proof: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_node_proof",
			Help: "1 for what the last verdict rests on: runtime, what was loaded; file, the files alone; none, nothing yet."}, []string{"kind"}),
		strategy: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_node_strategy",
			Help: "1 for the strategy in use: cilium, drop-in or list."}, []string{"strategy"}),
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_node_repairs_total",
			Help: "Times that files in the CNI directories were written or removed, by strategy; binary: the executable."}, []string{"strategy"}),
		removals: prometheus.NewCounter(prometheus.CounterOpts{Name: "holdfast_node_removals_total",
			Help: "Times that somebody else removed or renamed a file of Holdfast's."}),
		nudges: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_node_nudges_total",
			Help: "Times that Cilium or the runtime was made to look again."}, []string{"target"}),
		closed: prometheus.NewCounter(prometheus.CounterOpts{Name: "holdfast_node_closed_seconds_total",
			Help: "Seconds that the node was closed."}),
		patches: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_node_patches_total",
			Help: "Patches of the Node, by result: written, failed."}, []string{"result"}),
	}
	for _, c := range []prometheus.Collector{m.isOpen, m.reason, m.proof, m.strategy, m.repairs, m.removals, m.nudges, m.closed, m.patches} {
		_ = r.Register(c) // of two loops in one process, a test's, the first is shown
	}
	for _, target := range []string{targetCilium, targetRuntime} {
		m.nudges.WithLabelValues(target)
	}
	m.proof.WithLabelValues("none").Set(1)
	return m
}

// What is nudged.
const targetCilium, targetRuntime = "cilium", "runtime"

// looked records one look.
func (m *metrics) looked(now time.Time, g *gate, proof string, strategy chaining.Strategy) {
	if !g.open && !m.last.IsZero() {
		m.closed.Add(now.Sub(m.last).Seconds())
	}
	m.last = now
	m.isOpen.Set(0)
	if g.open {
		m.isOpen.Set(1)
	}
	m.reason.Reset()
	if g.reason != chaining.Chained {
		m.reason.WithLabelValues(string(g.reason)).Set(1)
	}
	m.proof.Reset()
	m.proof.WithLabelValues(proof).Set(1)
	m.strategy.Reset()
	if strategy != "" {
		m.strategy.WithLabelValues(string(strategy)).Set(1)
	}
}

func (m *metrics) repaired(how string)   { m.repairs.WithLabelValues(how).Inc() }
func (m *metrics) nudged(target string)  { m.nudges.WithLabelValues(target).Inc() }
func (m *metrics) patched(result string) { m.patches.WithLabelValues(result).Inc() }
