package cluster

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-cni/holdfast/configmap"
)

// metrics are the watcher's own, beside those of controller-runtime.
type metrics struct {
	current  prometheus.Gauge
	writes   *prometheus.CounterVec
	findings *prometheus.GaugeVec
	synced   *prometheus.CounterVec
	invalid  prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		current: prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_list_current",
			Help: "1 while the ConfigMap Cilium reads holds the list it must, else 0."}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_list_writes_total",
			Help: "Writes of the ConfigMap Cilium reads, by cause: created, updated, repaired, adopted, released, failed."}, []string{"cause"}),
		findings: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_finding",
			Help: "Present while a finding holds; the value is the number of nodes it holds on, 0 for the whole cluster."}, []string{"id", "severity"}),
		synced: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_fast_sync_total",
			Help: "Cilium pods whose kubelet was asked to sync the list, by result."}, []string{"result"}),
		invalid: prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_plugin_invalid",
			Help: "1 while plugin.json is missing or refused and the last good list stays, else 0."}),
	}
	m.current, m.writes, m.findings = register(r, m.current), register(r, m.writes), register(r, m.findings)
	m.synced, m.invalid = register(r, m.synced), register(r, m.invalid)
	return m
}

// register returns the collector to use: two watchers in one process share theirs.
func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	var already prometheus.AlreadyRegisteredError
	if err := r.Register(c); errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	return c
}

func (m *metrics) listCurrent(current bool) { m.current.Set(number(current)) }
func (m *metrics) listWritten(cause string) { m.writes.WithLabelValues(cause).Inc() }
func (m *metrics) fastSynced(result string) { m.synced.WithLabelValues(result).Inc() }
func (m *metrics) found(all []configmap.Finding) {
	m.findings.Reset()
	m.invalid.Set(0)
	for _, f := range all {
		m.findings.WithLabelValues(string(f.ID), string(f.Severity)).Add(float64(len(f.Nodes)))
		if f.ID == configmap.PluginInvalid || f.ID == configmap.PluginMissing {
			m.invalid.Set(1)
		}
	}
}

func number(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
