package store

import (
	"github.com/prometheus/client_golang/prometheus"

	"talon/host/store/metrics"
)

// measures are the metrics of all engines and those that only SQLite's has.
type measures struct {
	*metrics.Metrics
	waiting  prometheus.Gauge
	waited   [readClasses]prometheus.Observer
	paused   prometheus.Counter
	failures prometheus.Counter
}
