package metrics

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry collects the metrics of one server.
type Registry struct {
	registry *prometheus.Registry
}

// New returns a registry with the metrics of the process and of the build.
func New(version string) *Registry {
	r := &Registry{registry: prometheus.NewRegistry()}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "talon_build_info", Help: "Always 1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.registry.MustRegister(
		build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// Register adds collectors. Two of the same name are an error.
func (r *Registry) Register(list ...prometheus.Collector) error {
	for _, c := range list {
		if err := r.registry.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Handler serves the metrics in the formats that Prometheus reads.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}
