package postgres

import (
	"github.com/prometheus/client_golang/prometheus"

	"talon/host/store/metrics"
)

func newMetrics(s *Store) *metrics.Metrics {
	return metrics.New(metrics.Log, "Time that an operation takes, the wait for a connection included.", s.total.Load, func() float64 {
		if s.pool == nil {
			return 0
		}
		return float64(s.pool.Stat().AcquiredConns())
	})
}

// Collectors returns the metrics of the store.
func (s *Store) Collectors() []prometheus.Collector { return s.metrics.Collectors }
