package ingest

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
)

type metrics struct {
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
}

func newMetrics() *metrics {
	fast := prometheus.ExponentialBuckets(5e-6, 2.5, 12)
	return &metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "talon_events_total", Help: "Events answered, by class of kind, origin and outcome.",
		}, []string{"class", "origin", "outcome"}),
		verify: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "talon_verify_seconds", Help: "Time to check an event's id and signature.", Buckets: fast,
		}),
		decision: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "talon_decision_seconds", Help: "Time of verification and policy together, of one worker.", Buckets: fast,
		}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "talon_decision_wait_seconds", Help: "Time that a decision waited for a module, or for a fact that it reads, while another one was made in its place. Without a module: for what the relay itself reads.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 2.5, 10),
		}, []string{"module"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "talon_decisions_waiting", Help: "Decisions that wait for a module, or for a fact that it reads, now, without a worker.",
		}, []string{"module"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "talon_commit_items", Help: "Items answered by one commit.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		redecided: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "talon_redecided_total", Help: "Decisions taken again because a fact had changed.",
		}),
		retries: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "talon_redecisions", Help: "How often the decision about one event was taken again.", Buckets: []float64{0, 1, 2, 3, 4, 6, 8},
		}),
		contended: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "talon_contended_total", Help: "Events refused because what they depend on changed too fast to decide about them.",
		}),
		exclusive: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "talon_exclusive_turns_total", Help: "Decisions that all others waited for, by whether they were made in time.",
		}, []string{"outcome"}),
		blocked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "talon_ingest_blocked_total", Help: "Submissions that had to wait because the queue was full.",
		}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "talon_expired_total", Help: "Events removed because they had expired (NIP-40).",
		}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "talon_held_total", Help: "Changes in purgatory, by what became of the event, and its kind.",
		}, []string{"fate", "kind"}),
		releases: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "talon_arrivals_total", Help: "Arrivals of git data, by whether they released events.",
		}, []string{"outcome"}),
		overQuota: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "talon_held_quota_refused_total", Help: "Events refused since as much of their author or network waits for git data as may.",
		}, []string{"limit"}),
	}
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

// heldKind is the label of an event in purgatory: its kind, if it is one that waits for git
// data. A policy may hold any other.
func heldKind(kind host.Kind) string {
	switch kind {
	case 30617, 30618, 1618, 1619: // announcement, state, pull request, its update
		return strconv.Itoa(int(kind))
	}
	return "other"
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

// Collectors returns the pipeline's metrics.
func (p *Pipeline) Collectors() []prometheus.Collector {
	m := p.metrics
	depth := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "talon_ingest_queue", Help: "Items that wait for the writer.",
	}, func() float64 { return float64(p.schedule.depth()) })
	return []prometheus.Collector{m.events, m.verify, m.decision, m.waits, m.batch, m.redecided, m.retries, m.contended, m.exclusive, m.blocked, m.expired, m.held, m.releases, m.overQuota, depth, m.waiting}
}
