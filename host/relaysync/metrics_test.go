package relaysync

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host/relaysync/loop"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// TestMetrics checks that the metrics are those of existing dashboards, under any prefix, and that
// our own dashboard shows only metrics that exist.
func TestMetrics(t *testing.T) {
	r := newRemote(t, nil)
	r.add(notes(t, 3)...)
	daily := fetch(r.url, "h", abi.MethodAuto, kinds(1))
	daily.Purpose = abi.PurposeDaily
	w := start(t, onConnect(r.url, daily), func(cfg *Config, _ *Deps) { cfg.Prefix = "ngit" })
	w.plan.wait(t, 1, "done h")
	registry := prometheus.NewPedanticRegistry()
	for _, c := range w.sync.Collectors() {
		registry.MustRegister(c)
	}
	found := func() map[string]bool {
		names := map[string]bool{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				labels := ""
				for _, l := range m.Label {
					labels += " " + l.GetName()
					if l.GetName() == "source" {
						labels += "=" + l.GetValue()
					}
				}
				names[f.GetName()+labels] = true
				names[f.GetName()] = true
			}
		}
		return names
	}
	for _, want := range []string{
		"ngit_sync_relay_connected relay", "ngit_sync_connection_attempts_total relay result", "ngit_sync_relay_status relay",
		"ngit_sync_relay_failures relay", "ngit_sync_gap_events_total relay", "ngit_sync_relays_tracked_total", "ngit_sync_relays_connected_total",
		"ngit_sync_relays_dead_total", "ngit_sync_events_total source=live", "ngit_sync_events_total source=startup", "ngit_sync_events_total source=reconnect",
		"ngit_sync_events_total source=daily", "ngit_sync_events_total source=direct",
	} {
		testkit.Eventually(t, want, func() bool { return found()[want] })
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "grafana", "talon-sync.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) {
		t.Fatal("the dashboard is no JSON")
	}
	names := found()
	shown := regexp.MustCompile(`\$\{prefix\}(_sync_[a-z_]+)`).FindAllStringSubmatch(string(text), -1)
	if len(shown) < 15 {
		t.Errorf("the dashboard shows %d metrics", len(shown))
	}
	for _, m := range shown {
		if !names["ngit"+strings.TrimSuffix(m[1], "_bucket")] {
			t.Errorf("the dashboard shows %s, which there is not", m[1])
		}
	}
}

// Relays beyond a number share their metrics: anybody can name relays.
func TestMetricLabels(t *testing.T) {
	m := newMetrics("talon", 2)
	for _, relay := range []string{"wss://a", "wss://b", "wss://c", "wss://d"} {
		m.measure(loop.MetricChange{What: loop.MeasuredAttempt, Relay: relay, Value: 1})
		m.measure(loop.MetricChange{What: loop.MeasuredState, Relay: relay, State: loop.State{Status: loop.StatusHealthy}})
		m.measure(loop.MetricChange{What: loop.MeasuredConnected, Relay: relay, Value: 1})
	}
	count := func(c prometheus.Collector) int {
		ch := make(chan prometheus.Metric, 100)
		c.Collect(ch)
		return len(ch)
	}
	if a, s := count(m.attempts), count(m.status); a != 3 || s != 2 {
		t.Errorf("%d attempts, %d statuses", a, s)
	}
	m.measure(loop.MetricChange{What: loop.MeasuredForgotten, Relay: "wss://a"})
	m.measure(loop.MetricChange{What: loop.MeasuredState, Relay: "wss://c", State: loop.State{Status: loop.StatusDead}})
	if m.label("wss://c") != "wss://c" || m.label("wss://d") != otherRelay {
		t.Error("the place of a forgotten relay is not free")
	}
}
