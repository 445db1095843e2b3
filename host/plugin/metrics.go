package plugin

import (
	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
)

// metrics of all modules.
type metrics struct {
	calls      *prometheus.CounterVec // module
	verdicts   *prometheus.CounterVec // module, action, rule
	failures   *prometheus.CounterVec // module, cause
	seconds    *prometheus.HistogramVec
	fuel       *prometheus.HistogramVec
	logDropped *prometheus.CounterVec
	instances  *prometheus.GaugeVec
	memory     *prometheus.GaugeVec
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "talon", Subsystem: "plugin", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "talon", Subsystem: "plugin", Name: name, Help: help}, []string{"module"})
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "talon", Subsystem: "plugin", Name: name, Help: help, Buckets: buckets,
		}, []string{"module"})
	}
	return &metrics{
		calls:      counter("calls_total", "Decisions asked of a module.", "module"),
		verdicts:   counter("verdicts_total", "Decisions of a module by action and rule.", "module", "action", "rule"),
		failures:   counter("failures_total", "Decisions that a module failed to take, by cause.", "module", "cause"),
		logDropped: counter("log_dropped_total", "Log lines of a module beyond its limits.", "module"),
		seconds: histogram("decision_seconds", "Time of one decision in a module, host functions included.",
			prometheus.ExponentialBuckets(500e-9, 2, 16)),
		fuel: histogram("decision_fuel", "Fuel that one decision spent.",
			prometheus.ExponentialBuckets(64, 4, 10)),
		instances: gauge("instances", "Live instances of a module."),
		memory:    gauge("memory_bytes", "Memory of all instances of a module."),
	}
}

// collectors returns them for registration.
func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.verdicts, m.failures, m.logDropped, m.seconds, m.fuel, m.instances, m.memory}
}

// moduleMetrics are the metrics of one module.
type moduleMetrics struct {
	calls         prometheus.Counter
	failures      map[cause]prometheus.Counter
	seconds, fuel prometheus.Observer
	logDropped    prometheus.Counter
	instances     prometheus.Gauge
	memory        prometheus.Gauge

	verdict func(action host.Action, rule string) prometheus.Counter
}

func (m *metrics) of(module string) *moduleMetrics {
	mm := &moduleMetrics{
		calls:      m.calls.WithLabelValues(module),
		failures:   make(map[cause]prometheus.Counter, len(causes)),
		seconds:    m.seconds.WithLabelValues(module),
		fuel:       m.fuel.WithLabelValues(module),
		logDropped: m.logDropped.WithLabelValues(module),
		instances:  m.instances.WithLabelValues(module),
		memory:     m.memory.WithLabelValues(module),
		verdict: func(action host.Action, rule string) prometheus.Counter {
			return m.verdicts.WithLabelValues(module, action.String(), rule)
		},
	}
	for _, c := range causes {
		mm.failures[c] = m.failures.WithLabelValues(module, string(c))
	}
	return mm
}
