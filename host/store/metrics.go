package store

import (
	"os"

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
	operations
)

func (o operation) String() string {
	return [operations]string{
		"get", "look up", "look up references to", "select", "fetch", "count", "list authors of", "scan", "export", "look up held",
		"list placeholders of", "look for deletions of", "list relays of",
	}[o]
}

// label is the operation in metrics.
func (o operation) label() string {
	return [operations]string{
		"get", "missing", "referenced", "select", "fetch", "count", "authors", "scan", "export", "held", "placeholders", "deleted", "relays",
	}[o]
}

type metrics struct {
	put        [host.Codes]prometheus.Observer
	putErrors  prometheus.Counter
	commit     prometheus.Histogram
	batch      prometheus.Histogram
	queries    [operations]prometheus.Observer
	waiting    prometheus.Gauge
	waited     [readClasses]prometheus.Observer
	paused     prometheus.Counter
	failures   prometheus.Counter
	collectors []prometheus.Collector
}

func newMetrics(s *Store) *metrics {
	quick := prometheus.ExponentialBuckets(5e-6, 2.5, 14)
	put := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_store_put_seconds", Help: "Time to put one event into a transaction, by outcome.", Buckets: quick,
	}, []string{"outcome"})
	query := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_store_query_seconds", Help: "Time that an operation holds a reader.", Buckets: quick,
	}, []string{"operation"})
	wait := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_store_reader_wait_seconds", Help: "Time that reads waited for their turn, each time that they had to.", Buckets: quick,
	}, []string{"read"})
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
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "talon_store_readers_waiting", Help: "Callers that wait for their turn to read.",
		}),
		paused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "talon_store_reads_paused_total", Help: "Times that a long read let reads of others go first.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "talon_store_checkpoint_errors_total", Help: "Failed attempts to copy the log into the database.",
		}),
	}
	// Only the outcomes that Put and Hold have.
	for _, c := range []host.Code{host.Stored, host.Held, host.Duplicate, host.Replaced, host.Rejected} {
		m.put[c] = put.WithLabelValues(c.String())
	}
	for class := range readClasses {
		m.waited[class] = wait.WithLabelValues(class.String())
	}
	for op := range operations {
		m.queries[op] = query.WithLabelValues(op.label())
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	size := func(suffix string) func() float64 {
		return func() float64 { return float64(fileSize(s.path + suffix)) }
	}
	m.collectors = []prometheus.Collector{
		put, query, m.putErrors, m.commit, m.batch, m.waiting, wait, m.paused, m.failures,
		gauge("talon_store_readers_busy", "Queries that read at this moment.", func() float64 { return float64(s.turns.busy()) }),
		gauge("talon_store_events", "Events stored.", func() float64 { return float64(s.total.Load().Events) }),
		gauge("talon_store_event_bytes", "Bytes of the stored events' JSON.", func() float64 { return float64(s.total.Load().Bytes) }),
		gauge("talon_held_events", "Events in purgatory.", func() float64 { return float64(s.total.Load().Held) }),
		gauge("talon_held_bytes", "Bytes of their JSON.", func() float64 { return float64(s.total.Load().HeldBytes) }),
		gauge("talon_store_database_bytes", "Size of the database file.", size("")),
		gauge("talon_store_wal_bytes", "Size of the write-ahead log's file.", size("-wal")),
	}
	return m
}

// Collectors returns the metrics of the store.
func (s *Store) Collectors() []prometheus.Collector { return s.metrics.collectors }

// Stats describes the database for people.
type Stats struct {
	Total
	FileBytes int64
	LogBytes  int64 // the write-ahead log's file; it is reused, so it does not shrink
}

// Stats returns what is stored, as of the last commit of this process.
func (s *Store) Stats() Stats {
	return Stats{Total: *s.total.Load(), FileBytes: fileSize(s.path), LogBytes: fileSize(s.path + "-wal")}
}

func fileSize(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}
