package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-cni/holdfast/configmap"
)

// metrics are the watcher's own, beside those of controller-runtime.
type metrics struct {
	current  prometheus.Gauge
	writes   *prometheus.CounterVec
	findings *prometheus.GaugeVec
	nodes    *prometheus.GaugeVec
	synced   *prometheus.CounterVec
	invalid  prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
		current: prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_list_current",
			Help: "1 while the ConfigMap Cilium reads holds the list it must, else 0."}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_list_writes_total",
			Help: "Writes of the ConfigMap Cilium reads, by cause: created, updated, repaired, adopted, released, failed."}, []string{"cause"}),
		findings: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_finding",
			Help: "Findings of a kind that hold now."}, []string{"id", "severity"}),
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "holdfast_finding_nodes",
			Help: "Nodes that findings of a kind hold on; 0 where they hold for the whole cluster."}, []string{"id"}),
		synced: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_fast_sync_total",
			Help: "Cilium pods whose kubelet was asked to sync the list, by result."}, []string{"result"}),
		invalid: prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_plugin_invalid",
			Help: "1 while plugin.json is missing or refused and the last good list stays, else 0."}),
	}
}

// export offers the metrics. Only the watcher that acts may: another's gauges would say 0 of what it does not look at. Of two
// watchers in one process, a test's, the first is shown.
func (m *metrics) export(r prometheus.Registerer) {
	for _, c := range []prometheus.Collector{m.current, m.writes, m.findings, m.nodes, m.synced, m.invalid} {
		_ = r.Register(c)
	}
}

func (m *metrics) listCurrent(current bool) { m.current.Set(number(current)) }
func (m *metrics) listWritten(cause string) { m.writes.WithLabelValues(cause).Inc() }
func (m *metrics) fastSynced(result string) { m.synced.WithLabelValues(result).Inc() }
func (m *metrics) found(all []configmap.Finding) {
	m.findings.Reset()
	m.nodes.Reset()
	m.invalid.Set(0)
	for _, f := range all {
		m.findings.WithLabelValues(string(f.ID), string(f.Severity)).Inc()
		m.nodes.WithLabelValues(string(f.ID)).Add(float64(len(f.Nodes)))
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
