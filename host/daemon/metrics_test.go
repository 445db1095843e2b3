//go:build !race

package daemon

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"talon/host/config"
)

var update = flag.Bool("update", false, "write testdata/metrics.golden")

// TestMetricNames holds the names, labels and types of what /metrics shows, but for the
// metrics of the process, against testdata/metrics.golden: operators have dashboards and
// alerts of them.
func TestMetricNames(t *testing.T) {
	lines := make(map[string]bool)
	for _, c := range assembled(t, "talon") {
		for _, line := range described(t, c) {
			lines[line] = true
		}
	}
	got := strings.Join(slices.Sorted(maps.Keys(lines)), "\n") + "\n"

	file := filepath.Join("testdata", "metrics.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		if line = strings.TrimSuffix(line, "\n"); !lines[line] {
			t.Errorf("gone: %s", line)
		}
		delete(lines, line)
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		t.Errorf("new: %s", line)
	}
	if t.Failed() {
		t.Errorf("that is not what %s says; if operators are told of it: go test ./host/daemon -run MetricNames -update", file)
	}
}

// Metrics of the hunt have the operator's prefix, as those of sync have.
func TestHuntPrefix(t *testing.T) {
	for _, c := range assembled(t, "ngit") {
		if slices.ContainsFunc(described(t, c), func(line string) bool { return strings.HasPrefix(line, "ngit_purgatory_sync_queue_size{") }) {
			return
		}
	}
	t.Error("there is no ngit_purgatory_sync_queue_size")
}

// assembled returns the metrics of a server with all its parts.
func assembled(t *testing.T, prefix string) []prometheus.Collector {
	t.Helper()
	p := assembledParts(t, func(cfg *config.Config) { cfg.MetricsPrefix = prefix })
	var list []prometheus.Collector
	for _, c := range p.collectors() {
		if of, ok := c.(termMetrics); ok {
			list = append(list, of.now()...)
			continue
		}
		list = append(list, c)
	}
	return list
}

// assembledParts returns the parts of a server that does not run.
func assembledParts(t *testing.T, change func(*config.Config)) *parts {
	t.Helper()
	ctx := context.Background()
	plugins := built(t, "plugins/open", "plugins/polite", "plugins/mirror")
	write(t, plugins, "open.toml", "[config]\nevery = true\n") // a policy has to be there
	cfg := defaults(t, plugins)
	change(cfg)
	d := New(cfg, "test", slog.New(slog.DiscardHandler))
	core, err := OpenCore(ctx, cfg, slog.New(slog.DiscardHandler), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := core.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	p, err := d.assemble(ctx, core)
	if err != nil {
		t.Fatal(err)
	}
	if p.sync, err = d.openSync(ctx, core, p.ingest, p.key, nil); err != nil {
		t.Fatal(err)
	}
	if p.hunter == nil || p.sync == nil {
		t.Fatal("the server does not fetch, or does not sync")
	}
	return p
}

var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", .* constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)

// described returns a line for each metric that a collector may have. It omits the type of a metric
// that has no value yet, unless it is a vector.
func described(t *testing.T, c prometheus.Collector) (lines []string) {
	t.Helper()
	types := make(map[string]string)
	metrics := make(chan prometheus.Metric)
	go func() {
		c.Collect(metrics)
		close(metrics)
	}()
	for m := range metrics {
		var value dto.Metric
		if err := m.Write(&value); err != nil {
			t.Error(err)
		}
		types[m.Desc().String()] = typeOf(&value)
	}
	for _, d := range descriptionsOf(c) {
		parts := description.FindStringSubmatch(d)
		if parts == nil {
			t.Fatalf("a description of another form: %s", d)
		}
		kind := cmp.Or(types[d], "unknown")
		switch c.(type) {
		case *prometheus.CounterVec:
			kind = "counter"
		case *prometheus.GaugeVec:
			kind = "gauge"
		case *prometheus.HistogramVec:
			kind = "histogram"
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s{%s} %s %s", parts[1], parts[3], kind, parts[2])))
	}
	return lines
}

// descriptionsOf returns the descriptions of the metrics that a collector may have.
func descriptionsOf(c prometheus.Collector) (list []string) {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descriptions)
		close(descriptions)
	}()
	for d := range descriptions {
		list = append(list, d.String())
	}
	return list
}

func typeOf(m *dto.Metric) string {
	switch {
	case m.Counter != nil:
		return "counter"
	case m.Gauge != nil:
		return "gauge"
	case m.Histogram != nil:
		return "histogram"
	case m.Summary != nil:
		return "summary"
	}
	return "untyped"
}
