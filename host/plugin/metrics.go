package plugin

import (
	"github.com/prometheus/client_golang/prometheus"

	"talon/host/plugin/guest"
)

// metrics are those of generations; what happens within a module is in
// guest.Metrics.
type metrics struct {
	guests     *guest.Metrics
	changes    *prometheus.CounterVec // plugin, result
	refusals   *prometheus.CounterVec // plugin, by
	generation *prometheus.Desc
	disputes   *prometheus.Desc
	state      *prometheus.Desc
	refused    *prometheus.Desc
}

func newMetrics() *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName("talon", "plugin", name), help, append([]string{"module"}, labels...), nil)
	}
	return &metrics{
		guests: guest.NewMetrics(),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "talon", Subsystem: "plugin", Name: "changes_total",
			Help: "Changes of a plugin's files, by outcome: accepted, refused, removed.",
		}, []string{"module", "result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "talon", Subsystem: "plugin", Name: "breaker_refusals_total",
			Help: "Questions that a plugin was not asked because it had failed for the same connection, author, network or relay, or for too many (all).",
		}, []string{"module", "by"}),
		generation: desc("generation", "Number of the generation that runs.", "mode"),
		disputes:   desc("shadow_disagreements_total", "Questions on which a plugin in shadow mode and the chain disagreed, by the plugin's answer.", "action", "rule"),
		state:      desc("state_bytes", "What a plugin remembers."),
		refused:    desc("quarantined", "1 if the file in the folder was refused."),
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
