package plugin

import (
	"github.com/prometheus/client_golang/prometheus"

	"talon/host/plugin/guest"
)

// metrics are those of generations; what happens within a module is in
// guest.Metrics.
type metrics struct {
	guests     *guest.Metrics
	registry   *Registry
	changes    *prometheus.CounterVec // plugin, result
	refusals   *prometheus.CounterVec // plugin, by
	generation *prometheus.Desc
	disputes   *prometheus.Desc
	state      *prometheus.Desc
	refused    *prometheus.Desc
}

func newMetrics(r *Registry) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("talon", "plugin", name), help, append([]string{"module"}, labels...), nil)
	}
	return &metrics{
		guests:   guest.NewMetrics(),
		registry: r,
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "talon", Subsystem: "plugin", Name: "changes_total",
			Help: "Changes of a plugin's files, by what became of them: accepted, refused, removed.",
		}, []string{"module", "result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "talon", Subsystem: "plugin", Name: "breaker_refusals_total",
			Help: "Questions that a plugin was not asked because it had failed for the same connection, author, network or relay, or for too many (all).",
		}, []string{"module", "by"}),
		generation: desc("generation", "Number of the generation that runs.", "mode"),
		disputes:   desc("shadow_disagreements_total", "Questions about which a plugin in shadow mode and the chain disagreed, by what the plugin said.", "action", "rule"),
		state:      desc("state_bytes", "What a plugin remembers."),
		refused:    desc("quarantined", "1 if what lies in the folder was refused."),
	}
}

func (m *metrics) change(name, result string) { m.changes.WithLabelValues(name, result).Inc() }

func (m *metrics) refuse(name string, by causeKind) {
	m.refusals.WithLabelValues(name, causeKinds[by]).Inc()
}

// forget drops the series of a name that is gone.
func (m *metrics) forget(name string) {
	m.guests.Forget(name)
	m.refusals.DeletePartialMatch(prometheus.Labels{"module": name})
	for _, result := range []string{"accepted", "refused"} {
		m.changes.DeleteLabelValues(name, result)
	}
}

// Collectors returns the metrics of all plugins.
func (r *Registry) Collectors() []prometheus.Collector {
	return append(r.metrics.guests.Collectors(), r.metrics.changes, r.metrics.refusals, r.metrics)
}

// Describe implements prometheus.Collector for what is read when it is asked
// for.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.generation, m.disputes, m.state, m.refused} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	m.registry.looking.Lock()
	defer m.registry.looking.Unlock()
	for name, s := range m.registry.slots {
		if g := s.running; g != nil {
			gauge(m.generation, float64(g.number), name, string(g.file.Mode))
			for said, n := range g.tally.disputes.byOpinion() {
				to <- prometheus.MustNewConstMetric(m.disputes, prometheus.CounterValue, float64(n), name, said.action, said.rule)
			}
		}
		gauge(m.state, float64(m.registry.state.Bytes(name)), name)
		quarantined := 0.0
		if s.refused != nil {
			quarantined = 1
		}
		gauge(m.refused, quarantined, name)
	}
}
