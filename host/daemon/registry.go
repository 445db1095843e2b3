package daemon

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// registry collects the metrics of one server, which /metrics shows. Each package of the
// host makes its own metrics and returns them as collectors, which the daemon registers
// here. Nothing is registered globally.
type registry struct {
	all      *prometheus.Registry
	labelled prometheus.Registerer // the same, with the labels of all
	prefix   string
}

// ownPrefix begins the names of Talon's own metrics, as its packages register them.
const ownPrefix = "talon_"

// newRegistry returns a registry with the metrics of the process and of the build. Shown names
// begin with the prefix in place of talon. Each metric has the label node, unless that is empty.
func newRegistry(version, prefix, node string) *registry {
	r := &registry{all: prometheus.NewRegistry(), prefix: prefix + "_"}
	r.labelled = r.all
	if node != "" {
		r.labelled = prometheus.WrapRegistererWith(prometheus.Labels{"node": node}, r.all)
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "talon_build_info", Help: "Always 1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.labelled.MustRegister(
		build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// Register adds collectors. Two of the same name are an error.
func (r *registry) Register(list ...prometheus.Collector) error {
	for _, c := range list {
		if err := r.labelled.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Handler serves the metrics in the formats that Prometheus reads.
func (r *registry) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(r.gather), promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// gather returns the metrics under the names that are shown.
func (r *registry) gather() ([]*dto.MetricFamily, error) {
	families, err := r.all.Gather() // made for this call
	families = withAliases(families)
	for _, f := range families {
		if rest, own := strings.CutPrefix(f.GetName(), ownPrefix); own {
			name := r.prefix + rest
			f.Name = &name
		}
	}
	return families, err
}
