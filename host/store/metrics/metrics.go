// Package metrics has the common metrics of all engines of the store, under the same names.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/store/semantics"
)

// Operation is what a caller wants of the database.
type Operation uint8

// Operations of all engines, and after them those that only PostgreSQL's has.
const (
	Get Operation = iota
	Missing
	Referenced
	Select
	Fetch
	Count
	Authors
	Scan
	Export
	Held
	Placeholders
	Deleted
	Usage
	Audience
	Relays
	Moderation
	State
	Plugins
	Check
	Log
	operations
)

var names = [operations]struct{ verb, label string }{
	Get: {"get", "get"}, Missing: {"look up", "missing"}, Referenced: {"look up references to", "referenced"},
	Select: {"select", "select"}, Fetch: {"fetch", "fetch"}, Count: {"count", "count"}, Authors: {"list authors of", "authors"},
	Scan: {"scan", "scan"}, Export: {"export", "export"}, Held: {"look up held", "held"},
	Placeholders: {"list placeholders of", "placeholders"}, Deleted: {"look for deletions of", "deleted"},
	Usage: {"read the usage of", "usage"}, Audience: {"read the audience of", "audience"}, Relays: {"list relays of", "relays"}, State: {"load state beside", "state"}, Moderation: {"read the moderation log of", "moderation"}, Plugins: {"load plugins beside", "plugins"},
	Check: {"check", "check"}, Log: {"read the log of", "log"},
}

// String returns what errors say of it, before the word events.
func (o Operation) String() string { return names[o].verb }

// Metrics of one store.
type Metrics struct {
	Put       [host.Codes]prometheus.Observer
	PutErrors prometheus.Counter
	Commit    prometheus.Histogram
	Batch     prometheus.Histogram
	Queries   [operations]prometheus.Observer

	Collectors []prometheus.Collector
}

// Quick are the buckets of what takes microseconds when nothing is in its way.
var Quick = prometheus.ExponentialBuckets(5e-6, 2.5, 14)

// New returns the metrics of an engine with the operations up to last. querying says what
// the time of a query is; total and busy are asked when the metrics are.
func New(last Operation, querying string, total func() *semantics.Total, busy func() float64) *Metrics {
	put := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_store_put_seconds", Help: "Time to put one event into a transaction, by outcome.", Buckets: Quick,
	}, []string{"outcome"})
	query := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_store_query_seconds", Help: querying, Buckets: Quick,
	}, []string{"operation"})
	m := &Metrics{
		PutErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "talon_store_put_errors_total", Help: "Events that could not be put because the host failed.",
		}),
		Commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "talon_store_commit_seconds", Help: "Time of a commit, the wait for the disk included.", Buckets: prometheus.ExponentialBuckets(1e-4, 2, 16),
		}),
		Batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "talon_store_commit_events", Help: "Events put or removed by one commit.", Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
	}
	// Only the outcomes that Put and Hold have.
	for _, c := range []host.Code{host.Stored, host.Held, host.Duplicate, host.Replaced, host.Rejected} {
		m.Put[c] = put.WithLabelValues(c.String())
	}
	for op := range last + 1 {
		m.Queries[op] = query.WithLabelValues(names[op].label)
	}
	m.Collectors = []prometheus.Collector{
		put, query, m.PutErrors, m.Commit, m.Batch,
		Gauge("talon_store_readers_busy", "Queries that read at this moment.", busy),
		Gauge("talon_store_events", "Events stored.", func() float64 { return float64(total().Events) }),
		Gauge("talon_store_event_bytes", "Bytes of the stored events' JSON.", func() float64 { return float64(total().Bytes) }),
		Gauge("talon_held_events", "Events in purgatory.", func() float64 { return float64(total().Held) }),
		Gauge("talon_held_bytes", "Bytes of their JSON.", func() float64 { return float64(total().HeldBytes) }),
		Gauge("talon_hidden_events", "Events that the operator has hidden or banned.", func() float64 { return float64(total().Hidden) }),
	}
	return m
}

// Gauge returns a metric whose value is asked for.
func Gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}
