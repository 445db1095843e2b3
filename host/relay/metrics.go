package relay

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/wire"
)

// outKind is the type of a message to a client; it is a label.
type outKind uint8

const (
	outEvent outKind = iota
	outOK
	outEOSE
	outClosed
	outNotice
	outAuth
	outCount
	outNegMsg
	outNegErr
	outKinds
)

func (k outKind) String() string {
	return [outKinds]string{"EVENT", "OK", "EOSE", "CLOSED", "NOTICE", "AUTH", "COUNT", "NEG-MSG", "NEG-ERR"}[k]
}

// metrics are what a relay counts. Vectors are resolved once, so that counting
// costs no lookup.
type metrics struct {
	all []prometheus.Collector

	open        prometheus.Gauge
	accepted    prometheus.Counter
	rejected    [refusals]prometheus.Counter
	disconnects [cuts]*readableCounter
	limited     [limitedKinds]prometheus.Counter

	in        [wire.Verbs]*readableCounter
	out       [outKinds]prometheus.Counter
	malformed prometheus.Counter
	throttled prometheus.Counter
	bytesIn   *readableCounter
	bytesOut  *readableCounter

	inFlight   atomic.Int64
	answers    times // from EVENT to OK
	queueBytes prometheus.Gauge
	ok         [host.Codes]prometheus.Counter
	okError    prometheus.Counter

	authOK, authRefused prometheus.Counter

	subs               prometheus.Gauge
	stored, live       prometheus.Counter
	reqTime, countTime prometheus.Observer
	slowQueries        prometheus.Counter
	refusedQueries     [queryRefusals]prometheus.Counter

	negSessions prometheus.Gauge
	negOpened   prometheus.Counter
	negRefused  prometheus.Counter
	negRounds   prometheus.Counter
	negRecords  prometheus.Gauge
	negReused   prometheus.Counter
	negExtended prometheus.Counter
	negBuild    prometheus.Observer
}

// Collectors returns the relay's metrics, for registration.
func (r *Relay) Collectors() []prometheus.Collector { return r.metrics.all }

const metricPrefix = "talon_relay_"

func newMetrics() *metrics {
	m := &metrics{}
	m.open = m.gauge("connections", "Open websocket connections.")
	m.accepted = m.counter("connections_total", "Websocket connections that were accepted.")
	rejected := m.vector("connections_rejected_total", "Connections that were not accepted, by reason.", "reason")
	resolve(rejected, m.rejected[:], func(i int) fmt.Stringer { return refusal(i) })
	for i := range m.disconnects {
		m.disconnects[i] = m.readableCounter("connections_closed_total", "Connections that ended, by reason.", prometheus.Labels{"reason": closeCause(i).String()})
	}
	held := m.vector("limited_total", "Messages and bytes that waited, or were refused, because of the current limits of clients, by limit.", "limit")
	resolve(held, m.limited[:], func(i int) fmt.Stringer { return limited(i) })
	for i := range m.in {
		m.in[i] = m.readableCounter("messages_in_total", "Messages from clients, by verb.", prometheus.Labels{"verb": wire.Verb(i).String()})
	}
	out := m.vector("messages_out_total", "Messages to clients, by type.", "type")
	resolve(out, m.out[:], func(i int) fmt.Stringer { return outKind(i) })
	m.malformed = m.counter("messages_malformed_total", "Messages that were not understood.")
	m.throttled = m.counter("messages_throttled_total", "Messages before which reading paused because of the rate.")
	m.bytesIn = m.readableCounter("bytes_in_total", "Bytes read from clients, as on the wire.", nil)
	m.bytesOut = m.readableCounter("bytes_out_total", "Bytes written to clients, as on the wire.", nil)

	m.all = append(m.all, prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: metricPrefix + "events_in_flight", Help: "EVENTs submitted and not answered."},
		func() float64 { return float64(m.inFlight.Load()) },
	))
	m.queueBytes = m.gauge("queue_bytes", "Bytes that wait to be sent, of all connections.")
	oks := m.vector("ok_total", "Answers to EVENT, by outcome.", "code")
	resolve(oks, m.ok[:], func(i int) fmt.Stringer { return host.Code(i) })
	m.okError = oks.WithLabelValues("error")

	auth := m.vector("auth_total", "AUTH messages, by result.", "result")
	m.authOK, m.authRefused = auth.WithLabelValues("ok"), auth.WithLabelValues("refused")

	m.subs = m.gauge("subscriptions", "Subscriptions that are open.")
	delivered := m.vector("events_delivered_total", "Events sent to subscriptions: stored answers and live ones.", "from")
	m.stored, m.live = delivered.WithLabelValues("stored"), delivered.WithLabelValues("live")
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    metricPrefix + "query_seconds",
		Help:    "Time from a REQ or COUNT to its last answer in the queue.",
		Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
	}, []string{"verb"})
	m.all = append(m.all, times)
	m.reqTime, m.countTime = times.WithLabelValues("REQ"), times.WithLabelValues("COUNT")
	m.slowQueries = m.counter("queries_timed_out_total", "Reads of the store that took too long.")
	refused := m.vector("queries_refused_total", "REQ, COUNT and NEG-OPEN that the policy did not allow, by its answer.", "action")
	resolve(refused, m.refusedQueries[:], func(i int) fmt.Stringer { return queryRefusal(i) })

	m.negSessions = m.gauge("negentropy_sessions", "Negentropy sessions that are open.")
	m.negOpened = m.counter("negentropy_sessions_total", "Negentropy sessions that were opened.")
	m.negRefused = m.counter("negentropy_errors_total", "NEG-ERR messages.")
	m.negRounds = m.counter("negentropy_rounds_total", "Negentropy messages that were answered.")
	m.negRecords = m.gauge("negentropy_records", "Records in snapshots.")
	m.negReused = m.counter("negentropy_snapshots_reused_total", "Sessions that shared a snapshot.")
	m.negExtended = m.counter("negentropy_snapshots_extended_total", "Snapshots that were extended by events published since.")
	build := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    metricPrefix + "negentropy_snapshot_seconds",
		Help:    "Time to read a snapshot from the store.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
	})
	m.all = append(m.all, build)
	m.negBuild = build
	return m
}

// resolve fills in the counters of a vector, by the label of each index.
func resolve(of *prometheus.CounterVec, counters []prometheus.Counter, label func(i int) fmt.Stringer) {
	for i := range counters {
		counters[i] = of.WithLabelValues(label(i).String())
	}
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: metricPrefix + name, Help: help})
	m.all = append(m.all, g)
	return g
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
	m.all = append(m.all, c)
	return c
}

// readableCounter is a counter that [Relay.Telemetry] reads as well.
type readableCounter struct {
	atomic.Uint64

	_ [56]byte // the rest of a cache line: many goroutines count concurrently
}

func (t *readableCounter) Inc() { t.Add(1) }

func (m *metrics) readableCounter(name, help string, labels prometheus.Labels) *readableCounter {
	t := new(readableCounter)
	m.all = append(m.all, prometheus.NewCounterFunc(
		prometheus.CounterOpts{Name: metricPrefix + name, Help: help, ConstLabels: labels},
		func() float64 { return float64(t.Load()) },
	))
	return t
}

func (m *metrics) vector(name, help, label string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, []string{label})
	m.all = append(m.all, v)
	return v
}
