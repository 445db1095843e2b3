package postgres

import (
	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
)

// operation is what a caller wants of the database.
type operation uint8

const (
	opGet operation = iota
	opMissing
	opReferenced
	opSelect
	opFetch
	opCount
	opAuthors
	opScan
	opExport
	opHeld
	opPlaceholders
	opDeleted
	opRelays
	opState
	opPlugins
	opCheck
	opLog
	operations
)

func (o operation) String() string {
	return [operations]string{
		"get", "look up", "look up references to", "select", "fetch", "count", "list authors of", "scan", "export", "look up held",
		"list placeholders of", "look for deletions of", "list relays of", "load state beside", "load plugins beside", "check", "read the log of",
	}[o]
}

// label is the operation in metrics.
func (o operation) label() string {
	return [operations]string{
		"get", "missing", "referenced", "select", "fetch", "count", "authors", "scan", "export", "held", "placeholders", "deleted", "relays", "state", "plugins", "check", "log",
	}[o]
}

// metrics have the names that those of SQLite's engine have, as far as there is such a
// thing here.
type metrics struct {
	put        [host.Codes]prometheus.Observer
	putErrors  prometheus.Counter
	commit     prometheus.Histogram
	batch      prometheus.Histogram
	queries    [operations]prometheus.Observer
	collectors []prometheus.Collector
}

func newMetrics(s *Store) *metrics {
	quick := prometheus.ExponentialBuckets(5e-6, 2.5, 14)
	put := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_store_put_seconds", Help: "Time to put one event into a transaction, by outcome.", Buckets: quick,
	}, []string{"outcome"})
	query := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_store_query_seconds", Help: "Time that an operation takes, the wait for a connection included.", Buckets: quick,
	}, []string{"operation"})
	m := &metrics{
		putErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "talon_store_put_errors_total", Help: "Events that could not be put because the host failed.",
		}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "talon_store_commit_seconds", Help: "Time of a commit, the wait for the disk included.", Buckets: prometheus.ExponentialBuckets(1e-4, 2, 16),
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "talon_store_commit_events", Help: "Events put or removed by one commit.", Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
	}
	// Only the outcomes that Put and Hold have.
	for _, c := range []host.Code{host.Stored, host.Held, host.Duplicate, host.Replaced, host.Rejected} {
		m.put[c] = put.WithLabelValues(c.String())
	}
	for op := range operations {
		m.queries[op] = query.WithLabelValues(op.label())
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.collectors = []prometheus.Collector{
		put, query, m.putErrors, m.commit, m.batch,
		gauge("talon_store_readers_busy", "Queries that read at this moment.", func() float64 {
			if s.pool == nil {
				return 0
			}
			return float64(s.pool.Stat().AcquiredConns())
		}),
		gauge("talon_store_events", "Events stored.", func() float64 { return float64(s.total.Load().Events) }),
		gauge("talon_store_event_bytes", "Bytes of the stored events' JSON.", func() float64 { return float64(s.total.Load().Bytes) }),
		gauge("talon_held_events", "Events in purgatory.", func() float64 { return float64(s.total.Load().Held) }),
		gauge("talon_held_bytes", "Bytes of their JSON.", func() float64 { return float64(s.total.Load().HeldBytes) }),
	}
	return m
}

// Collectors returns the metrics of the store.
func (s *Store) Collectors() []prometheus.Collector { return s.metrics.collectors }
