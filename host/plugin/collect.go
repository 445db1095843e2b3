package plugin

import "github.com/prometheus/client_golang/prometheus"

// Collectors returns the metrics of all plugins.
func (r *Registry) Collectors() []prometheus.Collector {
	return append(r.metrics.guests.Collectors(), r.metrics.changes, r.metrics.refusals, &collector{r}, r.panics.Collector())
}

// collector is a prometheus.Collector of what is read when it is asked for.
type collector struct{ registry *Registry }

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	m := c.registry.metrics
	for _, d := range []*prometheus.Desc{m.generation, m.disputes, m.state, m.refused} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	r, m := c.registry, c.registry.metrics
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	for name, s := range r.slots {
		if g := s.running; g != nil {
			gauge(m.generation, float64(g.number), name, string(g.file.Mode))
			for said, n := range g.counters.disputes.byOpinion() {
				to <- prometheus.MustNewConstMetric(m.disputes, prometheus.CounterValue, float64(n), name, said.action, said.rule)
			}
		}
		gauge(m.state, float64(r.state.Bytes(name)), name)
		quarantined := 0.0
		if s.refused != nil {
			quarantined = 1
		}
		gauge(m.refused, quarantined, name)
	}
}
