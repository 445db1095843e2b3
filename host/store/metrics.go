package store

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host/store/metrics"
)

func newMetrics(s *Store) *measures {
	wait := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_store_reader_wait_seconds", Help: "Time that reads waited for their turn, each time that they had to.", Buckets: metrics.Quick,
	}, []string{"read"})
	m := &measures{
		Metrics: metrics.New(metrics.Moderation, "Time that an operation holds a reader.", s.total.Load, func() float64 { return float64(s.queue.busy()) }),
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
	for class := range readClasses {
		m.waited[class] = wait.WithLabelValues(class.String())
	}
	size := func(suffix string) func() float64 {
		return func() float64 { return float64(fileSize(s.path + suffix)) }
	}
	m.Collectors = append(m.Collectors, s.panics.Collector(), m.waiting, wait, m.paused, m.failures,
		metrics.Gauge("talon_store_database_bytes", "Size of the database file.", size("")),
		metrics.Gauge("talon_store_wal_bytes", "Size of the write-ahead log's file.", size("-wal")))
	return m
}

// Collectors returns the metrics of the store.
func (s *Store) Collectors() []prometheus.Collector { return s.metrics.Collectors }

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
