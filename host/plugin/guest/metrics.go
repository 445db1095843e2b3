package guest

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
)

// Metrics are the metrics of all modules. The label module is the plugin's name.
type Metrics struct {
	calls      *prometheus.CounterVec   // module, function
	verdicts   *prometheus.CounterVec   // module, action, rule, source
	failures   *prometheus.CounterVec   // module, cause
	seconds    *prometheus.HistogramVec // module, function
	fuel       *prometheus.HistogramVec // module, function
	instances  *prometheus.GaugeVec     // module
	memory     *prometheus.GaugeVec     // module
	logDropped *prometheus.CounterVec   // module
	counters   *prometheus.CounterVec   // module, name: of the module itself
	gauges     *prometheus.GaugeVec     // module, name: of the module itself

	mu    sync.Mutex // guards the field below
	words map[string]*words
}

// words bounds what a plugin can add to the labels, over all its generations.
type words struct {
	rules  names
	values names
}

const (
	// maxRules is how many rule codes of one plugin have a series each; later
	// ones count as otherRule.
	maxRules = 64

	// maxValues is how many metrics of its own a module may have. Those of all
	// generations of a plugin that can be seen are maxMetricValues; later ones are not
	// recorded.
	maxValues       = 32
	maxMetricValues = 4 * maxValues
)

// NewMetrics returns metrics for [Options.Metrics].
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "talon", Subsystem: "plugin", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "talon", Subsystem: "plugin", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "talon", Subsystem: "plugin", Name: name, Help: help, Buckets: buckets,
		}, []string{"module", "function"})
	}
	return &Metrics{
		calls:    counter("calls_total", "Calls of a module.", "module", "function"),
		verdicts: counter("verdicts_total", "Verdicts of a module.", "module", "action", "rule", "source"),
		failures: counter("failures_total", "Calls in which a module failed, by cause.", "module", "cause"),
		seconds: histogram("decision_seconds", "Time of one call of a module, host functions included.",
			prometheus.ExponentialBuckets(1e-6, 2.5, 16)),
		fuel: histogram("decision_fuel", "Fuel that one call spent.",
			prometheus.ExponentialBuckets(64, 4, 10)),
		instances:  gauge("instances", "Live instances of a module.", "module"),
		memory:     gauge("memory_bytes", "Memory of all instances of a module.", "module"),
		logDropped: counter("log_dropped_total", "Log lines of a module beyond its limits.", "module"),
		counters:   counter("metric_total", "Counters that a module keeps itself.", "module", "name"),
		gauges:     gauge("metric", "Gauges that a module keeps itself.", "module", "name"),
		words:      make(map[string]*words),
	}
}

// metricVec is a metric with a series for each module.
type metricVec interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

func (m *Metrics) vectors() []metricVec {
	return []metricVec{
		m.calls, m.verdicts, m.failures, m.seconds, m.fuel, m.instances, m.memory, m.logDropped, m.counters, m.gauges,
	}
}

// Collectors returns the metrics for registration.
func (m *Metrics) Collectors() (list []prometheus.Collector) {
	for _, v := range m.vectors() {
		list = append(list, v)
	}
	return list
}

// Forget deletes the series of a plugin that is gone.
func (m *Metrics) Forget(module string) {
	m.mu.Lock()
	delete(m.words, module)
	m.mu.Unlock()
	for _, v := range m.vectors() {
		v.DeletePartialMatch(prometheus.Labels{"module": module})
	}
}

// Asked counts an answer of a plugin that is not a module.
func (m *Metrics) Asked(plugin string, f Func, took time.Duration, v *host.Ruling, source string) {
	m.calls.WithLabelValues(plugin, f.String()).Inc()
	m.seconds.WithLabelValues(plugin, f.String()).Observe(took.Seconds())
	m.verdicts.WithLabelValues(plugin, v.Action.String(), v.Rule, source).Inc()
}

// Failed counts a missing answer of a plugin that runs as a program. The causes are a
// closed set.
func (m *Metrics) Failed(plugin, cause string) { m.failures.WithLabelValues(plugin, cause).Inc() }

func (m *Metrics) wordsOf(module string) *words {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.words[module] == nil {
		m.words[module] = &words{rules: names{max: maxRules}, values: names{max: maxMetricValues}}
	}
	return m.words[module]
}

// moduleMetrics are the metrics of one module.
type moduleMetrics struct {
	all  *Metrics
	name string
	*words

	functions  [functions]functionMetrics // those that the module has
	failures   map[Cause]prometheus.Counter
	logDropped prometheus.Counter
	instances  prometheus.Gauge
	memory     prometheus.Gauge
}

type functionMetrics struct {
	calls         prometheus.Counter
	seconds, fuel prometheus.Observer
}

func (m *Metrics) of(module string) *moduleMetrics {
	mm := &moduleMetrics{
		all: m, name: module, words: m.wordsOf(module),
		failures:   make(map[Cause]prometheus.Counter, len(causes)),
		logDropped: m.logDropped.WithLabelValues(module),
		instances:  m.instances.WithLabelValues(module),
		memory:     m.memory.WithLabelValues(module),
	}
	for _, c := range causes {
		mm.failures[c] = m.failures.WithLabelValues(module, string(c))
	}
	return mm
}

// add makes the metrics of a function.
func (m *moduleMetrics) add(f Func) {
	m.functions[f] = functionMetrics{
		calls:   m.all.calls.WithLabelValues(m.name, f.String()),
		seconds: m.all.seconds.WithLabelValues(m.name, f.String()),
		fuel:    m.all.fuel.WithLabelValues(m.name, f.String()),
	}
}

func (m *moduleMetrics) verdict(action host.Action, rule, source string) prometheus.Counter {
	return m.all.verdicts.WithLabelValues(m.name, action.String(), rule, source)
}
