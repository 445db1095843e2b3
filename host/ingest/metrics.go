package ingest

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/sdk/grasp"
)

type metrics struct {
	all []prometheus.Collector

	events    *prometheus.CounterVec
	verify    prometheus.Histogram
	decision  prometheus.Histogram
	waits     *prometheus.HistogramVec // module
	waiting   *prometheus.GaugeVec     // module
	batch     prometheus.Histogram
	redecided prometheus.Counter
	retries   prometheus.Histogram
	contended prometheus.Counter
	exclusive *prometheus.CounterVec
	blocked   prometheus.Counter
	expired   prometheus.Counter
	held      *prometheus.CounterVec
	releases  *prometheus.CounterVec
	overQuota *prometheus.CounterVec
	barred    *prometheus.CounterVec
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
	m.all = append(m.all, c)
	return c
}

func (m *metrics) vector(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

func (m *metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricPrefix + name, Help: help, Buckets: buckets})
	m.all = append(m.all, h)
	return h
}

func (m *metrics) answered(a answer) {
	outcome := a.verdict.Code.String()
	if a.err != nil {
		outcome = "error"
	}
	m.retries.Observe(float64(a.entry.retries))
	it := a.entry.item
	m.events.WithLabelValues(it.Event.Kind.Class().String(), it.Source.Origin.String(), outcome).Inc()
}

func (m *metrics) changed(held []host.HeldChange) {
	for _, c := range held {
		m.held.WithLabelValues(c.Status.String(), heldKind(c.Event.Kind)).Inc()
	}
}

func (m *metrics) released(released []host.Released, err error) {
	outcome := "nothing"
	if slices.ContainsFunc(released, func(r host.Released) bool { return r.Status == host.StatusReleased }) {
		outcome = "released"
	}
	if err != nil {
		outcome = "error"
	}
	m.releases.WithLabelValues(outcome).Inc()
}

func newMetrics() *metrics {
	m := &metrics{}
	fast := prometheus.ExponentialBuckets(5e-6, 2.5, 12)
	m.events = m.vector("events_total", "Events answered, by class of kind, origin and outcome.", "class", "origin", "outcome")
	m.verify = m.histogram("verify_seconds", "Time to check an event's id and signature.", fast)
	m.decision = m.histogram("decision_seconds", "Time of verification and policy together, of one worker.", fast)
	m.waits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: metricPrefix + "decision_wait_seconds", Help: "Time that a decision waited for a module, or for a fact that it reads, while another one was made in its place. Without a module: for what the relay itself reads.",
		Buckets: prometheus.ExponentialBuckets(1e-3, 2.5, 10),
	}, []string{"module"})
	m.waiting = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: metricPrefix + "decisions_waiting", Help: "Decisions that wait for a module, or for a fact that it reads, now, without a worker.",
	}, []string{"module"})
	m.all = append(m.all, m.waits, m.waiting)
	m.batch = m.histogram("commit_items", "Items answered by one commit.", prometheus.ExponentialBuckets(1, 2, 10))
	m.redecided = m.counter("redecided_total", "Decisions taken again because a fact had changed.")
	m.retries = m.histogram("redecisions", "Repeated decisions about one event.", []float64{0, 1, 2, 3, 4, 6, 8})
	m.contended = m.counter("contended_total", "Events that were refused because their facts changed too fast for a decision.")
	m.exclusive = m.vector("exclusive_turns_total", "Decisions that all others waited for, by whether they were made in time.", "outcome")
	m.blocked = m.counter("ingest_blocked_total", "Submissions that had to wait because the queue was full.")
	m.expired = m.counter("expired_total", "Events removed because they had expired (NIP-40).")
	m.held = m.vector("held_total", "Changes in purgatory, by the outcome for the event, and its kind.", "outcome", "kind")
	m.releases = m.vector("releases_total", "Requests to release held events after git data came, by their outcome.", "outcome")
	m.barred = m.vector("barred_total", "Events refused by the operator's moderation log, by the action of the row.", "action")
	m.overQuota = m.vector("held_quota_refused_total", "Events refused since as much of their author or network waits for git data as may.", "limit")
	return m
}

const metricPrefix = "talon_"

// heldKind is the label of an event in purgatory: its kind, if it is one that waits for git
// data. A policy may hold any other.
func heldKind(kind host.Kind) string {
	if grasp.NeedsGitData(int(kind)) {
		return strconv.Itoa(int(kind))
	}
	return "other"
}

// Collectors returns the pipeline's metrics.
func (p *Pipeline) Collectors() []prometheus.Collector {
	depth := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metricPrefix + "ingest_queue", Help: "Items that wait for the writer.",
	}, func() float64 { return float64(p.schedule.depth()) })
	return append(slices.Clone(p.metrics.all), depth, p.deciding.Collector(), p.writing.Collector())
}
