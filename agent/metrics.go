package agent

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one node's agent.
type metrics struct {
	adoptions, stamps               prometheus.Counter
	delay                           prometheus.Histogram
	cuts, refusals, renewals        *prometheus.CounterVec
	verifications, sweeps, failures *prometheus.CounterVec
	unlocked                        *prometheus.GaugeVec
}

// state is what is counted when it is asked for.
type state struct {
	pods, leases int
	oldest       float64 // seconds
	marks        int
	ready        bool
}

func newMetrics(r prometheus.Registerer, now func() state) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	gauge := func(name, help string, value func(state) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(now()) })
	}
	m := &metrics{
		adoptions: counter("holdfast_agent_adoptions_total", "Pods that got their first lease."),
		stamps:    counter("holdfast_agent_stamp_failures_total", "Stamps that could not be written after a renewal."),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "holdfast_agent_renewal_delay_seconds",
			Help: "From when a renewal was due until the kernel had it.", Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30}}),
		cuts:          vec("holdfast_agent_cuts_total", "Pods that were cut off, by reason.", "reason"),
		refusals:      vec("holdfast_agent_refusals_total", "Pods that were not adopted, by code.", "code"),
		renewals:      vec("holdfast_agent_renewals_total", "Renewals of leases, by result: renewed, failed, lost.", "result"),
		verifications: vec("holdfast_agent_verifications_total", "Comparisons of a pod's rules with what was recorded, by result: same, failed, differ.", "result"),
		sweeps:        vec("holdfast_agent_sweeps_total", "Comparisons of what runs with what is locked, by result: done, failed.", "result"),
		failures:      vec("holdfast_agent_failures_total", "What else failed, by what: memory, the record of pods that were cut off; cut, a cut that is tried again.", "what"),
		unlocked: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_agent_unlocked_pods",
			Help: "Governed pods that run without a lock, by kind: past-chain, existing, held-back, host-network, unseen."}, []string{"kind"}),
	}
	for _, c := range []prometheus.Collector{
		m.adoptions, m.stamps, m.delay, m.cuts, m.refusals, m.renewals, m.verifications, m.sweeps, m.failures, m.unlocked,
		gauge("holdfast_agent_pods", "Pods that are locked and kept.", func(s state) float64 { return float64(s.pods) }),
		gauge("holdfast_agent_leases", "Those of them whose lease was renewed within its length.", func(s state) float64 { return float64(s.leases) }),
		gauge("holdfast_agent_oldest_renewal_seconds", "Age of the oldest last renewal of any pod; 0 with no pods.", func(s state) float64 { return s.oldest }),
		gauge("holdfast_agent_pending_marks", "Pods whose annotations are still to be written.", func(s state) float64 { return float64(s.marks) }),
		gauge("holdfast_agent_ready", "1 once every lease of the node was renewed twice by this agent, and while they are.", func(s state) float64 {
			if s.ready {
				return 1
			}
			return 0
		}),
	} {
		_ = r.Register(c) // of two agents in one process, a test's, the first is shown
	}
	for _, code := range codes() {
		m.cuts.WithLabelValues(string(code))
	}
	for _, code := range refusals() {
		m.refusals.WithLabelValues(code)
	}
	for vec, values := range map[*prometheus.CounterVec][]string{
		m.renewals: {"renewed", "failed", "lost"}, m.verifications: {"same", "failed", "differ"}, m.sweeps: {"done", "failed"}, m.failures: {"memory", "cut"},
	} {
		for _, value := range values {
			vec.WithLabelValues(value)
		}
	}
	m.show(nil)
	return m
}

// Kinds of governed pods that run without a lock.
const (
	kindPast     = "past-chain"   // it got past the chain
	kindExisting = "existing"     // it was there before its namespace was governed
	kindHeld     = "held-back"    // the same, and nothing is done about it: there are too many of them
	kindHost     = "host-network" // it has the node's own network
	kindUnseen   = "unseen"       // the runtime doesn't tell where it runs
)

// show sets how many pods of each kind there are.
func (m *metrics) show(kinds map[string]int) {
	for _, kind := range []string{kindPast, kindExisting, kindHeld, kindHost, kindUnseen} {
		m.unlocked.WithLabelValues(kind).Set(float64(kinds[kind]))
	}
}
