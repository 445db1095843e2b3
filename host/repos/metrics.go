package repos

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	seconds      prometheus.Histogram
	failed       prometheus.Counter
	made         prometheus.Counter
	removed      prometheus.Counter
	aligned      prometheus.Counter
	released     prometheus.Counter
	refused      prometheus.Counter
	placeholders prometheus.Counter
	all          []prometheus.Collector
}

func newMetrics() *metrics {
	m := new(metrics)
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "talon", Subsystem: "repo", Name: name, Help: help})
		m.all = append(m.all, c)
		return c
	}
	m.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "talon", Subsystem: "repo", Name: "job_seconds",
		Help:    "Time to bring one repository in line with the events, the wait for its lock included.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
	})
	m.all = append(m.all, m.seconds)
	m.failed = counter("job_failures_total", "Repositories that could not be brought in line.")
	m.made = counter("made_total", "Repositories that were made.")
	m.removed = counter("removed_total", "Repositories that were removed, their announcement gone.")
	m.aligned = counter("aligned_total", "Repositories whose refs were moved to those of a state, beyond pushes.")
	m.released = counter("released_total", "Events that were released because their git data is complete.")
	m.refused = counter("pushes_refused_total", "Pushes that the rules or a policy refused.")
	m.placeholders = counter("placeholders_expired_total", "Refs under refs/nostr/ that were deleted because no event came.")
	return m
}

func (m *metrics) ran(began time.Time, err error) {
	m.seconds.Observe(time.Since(began).Seconds())
	if err != nil {
		m.failed.Inc()
	}
}

// watch adds the gauges of a reconciler.
func (m *metrics) watch(f *Reconciler) {
	gauge := func(name, help string, value func() int) {
		m.all = append(m.all, prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "talon", Subsystem: "repo", Name: name, Help: help},
			func() float64 { return float64(value()) }))
	}
	gauge("jobs", "Repositories that are being brought in line, or wait for it.", f.jobs.len)
	gauge("placeholders", "Refs under refs/nostr/ that wait for their event.", f.waiting.len)
}
