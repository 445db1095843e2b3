package relaysync

import (
	"github.com/prometheus/client_golang/prometheus"

	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// direct is the source of what clients send here themselves.
const direct = "direct"

type metrics struct {
	labels    int // relays that may still have metrics of their own
	labelled  map[string]bool
	connected *prometheus.GaugeVec
	attempts  *prometheus.CounterVec
	status    *prometheus.GaugeVec
	failures  *prometheus.GaugeVec
	events    *prometheus.CounterVec
	gaps      *prometheus.CounterVec
	tracked   prometheus.Gauge
	up        prometheus.Gauge
	complete  prometheus.Gauge
	whole     *prometheus.GaugeVec // whether a relay is complete
	dead      prometheus.Gauge

	dropped *prometheus.CounterVec
	refused *prometheus.CounterVec // actions that were not carried out
	faults  prometheus.Counter
	steps   prometheus.Histogram
	waiting prometheus.Gauge
	retried prometheus.Counter
	polls   prometheus.Counter

	reconnections *prometheus.CounterVec
	received      prometheus.Counter
}

// absences are the values of the label absence, as loop.Stats counts them.
var absences = [2]string{"short", "long"}

// otherRelay is the label of relays above the number that have their own.
const otherRelay = "other"

func newMetrics(prefix string, labels int) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "_sync_" + name, Help: help})
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "_sync_" + name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "_sync_" + name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "_sync_" + name, Help: help}, labels)
	}
	m := &metrics{
		labels:    labels,
		labelled:  map[string]bool{},
		connected: gauges("relay_connected", "Whether a relay is connected: 1, or 0.", "relay"),
		attempts:  counters("connection_attempts_total", "Attempts to connect to a relay, by result: success or failure.", "relay", "result"),
		status:    gauges("relay_status", "Health of a relay: 1 healthy, 2 degraded, 3 dead.", "relay"),
		failures:  gauges("relay_failures", "Failures of a relay in a row.", "relay"),
		events:    counters("events_total", "Events that were stored or held, by source: live, startup, reconnect, daily, direct.", "source"),
		gaps:      counters("gap_events_total", "Events that live sync missed and catching up found.", "relay"),
		tracked:   gauge("relays_tracked_total", "Relays that are wanted."),
		up:        gauge("relays_connected_total", "Relays that are connected."),
		complete:  gauge("relays_complete_total", "Relays that are connected and complete. talon sync status shows the open work at the others."),
		whole:     gauges("relay_complete", "Whether a relay is complete: 1, or 0 if something is open there or it is not connected.", "relay"),
		dead:      gauge("relays_dead_total", "Relays that are dead."),
		dropped:   counters("dropped_total", "Things that relays sent and that were passed over, by reason.", "reason"),
		refused:   counters("actions_refused_total", "Actions of the strategy that were not carried out, by reason.", "reason"),
		faults:    counter("strategy_failures_total", "Calls of the strategy that failed."),
		steps: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "_sync_step_seconds", Help: "Time of one call of the strategy.", Buckets: prometheus.ExponentialBuckets(2e-5, 3, 10),
		}),
		waiting:  gauge("retry_events", "Refused events that are decided again when the events that they name arrive."),
		retried:  counter("retries_total", "Refused events that were decided again."),
		polls:    counter("polls_total", "Fetches of new events that have no subscription: the relay or sync-subscriptions leaves no room for one."),
		received: counter("received_bytes_total", "Bytes that relays sent in frames."),
	}
	m.reconnections = counters("reconnections_total", "Connections to a relay after one that was lost, by what the strategy does then: short, it continues from where the relay was lost; long, it fetches everything again. With a strategy that does not report it, long is more than 15 minutes.", "absence")
	for _, absence := range absences {
		m.reconnections.WithLabelValues(absence)
	}
	for purpose := range uint32(abi.PurposeDaily + 1) {
		m.events.WithLabelValues(session.SourceOf(purpose))
	}
	m.events.WithLabelValues(direct)
	for why := range session.Drops {
		m.dropped.WithLabelValues(session.IgnoreReason(why).String())
	}
	for why := range loop.Refusals {
		m.refused.WithLabelValues(loop.Refusal(why).String())
	}
	return m
}

// label returns the label of a relay. REQUIRES: the loop, as all methods that take a
// relay.
func (m *metrics) label(relay string) string {
	if m.labelled[relay] {
		return relay
	}
	if len(m.labelled) >= m.labels {
		return otherRelay
	}
	m.labelled[relay] = true
	return relay
}

// forget removes what is said of a relay that is known no more. Its counters go on, if
// it comes back, from zero.
func (m *metrics) forget(relay string) {
	if !m.labelled[relay] {
		return
	}
	delete(m.labelled, relay)
	m.connected.DeleteLabelValues(relay)
	m.whole.DeleteLabelValues(relay)
	m.attempts.DeletePartialMatch(prometheus.Labels{"relay": relay})
	m.status.DeleteLabelValues(relay)
	m.failures.DeleteLabelValues(relay)
	m.gaps.DeleteLabelValues(relay)
}

// measure records a change of a relay's metrics. Relays without metrics of their own
// have no gauges.
func (m *metrics) measure(e loop.MetricChange) {
	label := m.label(e.Relay)
	switch e.What {
	case loop.MeasuredForgotten:
		m.forget(e.Relay)
	case loop.MeasuredAttempt:
		result := "failure"
		if e.Value == 1 {
			result = "success"
		}
		m.attempts.WithLabelValues(label, result).Inc()
	case loop.MeasuredGap:
		m.gaps.WithLabelValues(label).Add(float64(e.Value))
	case loop.MeasuredState:
		if label != otherRelay {
			m.status.WithLabelValues(label).Set(float64(e.State.Status))
			m.failures.WithLabelValues(label).Set(float64(e.State.Failures))
		}
	case loop.MeasuredComplete:
		if label != otherRelay {
			m.whole.WithLabelValues(label).Set(float64(e.Value))
		}
	case loop.MeasuredConnected:
		if label != otherRelay {
			m.connected.WithLabelValues(label).Set(float64(e.Value))
			if e.Value == 1 {
				m.gaps.WithLabelValues(label)
				m.whole.WithLabelValues(label).Add(0)
			}
		}
	}
}

// count publishes what the loop has counted.
func (v *Sync) count() {
	m, now, was := v.metrics, v.loop.Stats(), v.stats
	v.stats = now
	for why := range now.Refused {
		if n := now.Refused[why] - was.Refused[why]; n > 0 {
			m.refused.WithLabelValues(loop.Refusal(why).String()).Add(float64(n))
		}
	}
	m.faults.Add(float64(now.Faults - was.Faults))
	m.retried.Add(float64(now.Retries - was.Retries))
	for long, absence := range absences {
		m.reconnections.WithLabelValues(absence).Add(float64(now.Reconnections[long] - was.Reconnections[long]))
	}
	m.polls.Add(float64(now.Polls - was.Polls))
	m.waiting.Set(float64(now.Retrying))
	m.tracked.Set(float64(now.Tracked))
	m.up.Set(float64(now.Connected))
	m.complete.Set(float64(now.Complete))
	m.dead.Set(float64(now.Dead))
}

// Collectors returns the metrics.
func (v *Sync) Collectors() []prometheus.Collector {
	m := v.metrics
	return []prometheus.Collector{
		m.connected, m.attempts, m.status, m.failures, m.events, m.gaps, m.tracked, m.up, m.complete, m.whole, m.dead,
		m.dropped, m.refused, m.faults, m.steps, m.waiting, m.retried, m.polls, m.reconnections, m.received,
	}
}
