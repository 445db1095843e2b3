//go:build !race

package daemon

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"talon/host/daemon/monitoring"
)

var metricHelp = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)"`)

// metrics lists the metrics of a server with all its parts.
func listMetrics(t *testing.T) []monitoring.Metric {
	t.Helper()
	found := make(map[string]*monitoring.Metric)
	labels := make(map[string]map[string]bool)
	help := make(map[string]string)
	for _, c := range assembled(t, "talon") {
		for _, d := range descriptionsOf(c) {
			if parts := metricHelp.FindStringSubmatch(d); parts != nil {
				help[parts[1]] = strings.ReplaceAll(parts[2], `\"`, `"`)
			}
		}
		for _, line := range described(t, c) {
			name, rest, _ := strings.Cut(line, "{")
			variable, rest, _ := strings.Cut(rest, "} ")
			kind, constant, _ := strings.Cut(rest, " ")
			if found[name] == nil {
				found[name] = &monitoring.Metric{Name: name, Type: kind}
				labels[name] = make(map[string]bool)
			}
			for label := range strings.FieldsFuncSeq(variable, func(r rune) bool { return r == ',' }) {
				labels[name][label] = true
			}
			for pair := range strings.FieldsFuncSeq(constant, func(r rune) bool { return r == ',' }) {
				label, _, _ := strings.Cut(pair, "=")
				labels[name][label] = true
			}
		}
	}
	var list []monitoring.Metric
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m := found[name]
		m.Help = help[name]
		m.Labels = slices.Sorted(maps.Keys(labels[name]))
		if m.Type == "unknown" { // it has no value yet
			m.Type = "gauge"
			if strings.HasSuffix(name, "_total") {
				m.Type = "counter"
			}
		}
		list = append(list, *m)
	}
	return list
}

// TestMonitoring compares the dashboards and alert rules in docs/grafana with what the metrics of
// a server give. Each metric is on one dashboard, and each rule reads metrics that exist.
func TestMonitoring(t *testing.T) {
	metrics := listMetrics(t)
	files, err := monitoring.Files(metrics)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "grafana")
	shown := make(map[string]int)
	for name, want := range files {
		path := filepath.Join(dir, name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date (%v): go test ./host/daemon -run Monitoring -update", path, err)
		}
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		var board struct {
			Panels []struct{ Targets []monitoring.Query }
		}
		if err := json.Unmarshal(want, &board); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, p := range board.Panels {
			for _, metric := range slices.Compact(monitoring.Names(p.Targets[0].Expr)) {
				shown[metric]++
			}
		}
	}
	known := make(map[string]bool)
	for _, m := range metrics {
		known[m.Name] = true
		if shown[m.Name] != 1 {
			t.Errorf("%s is on %d dashboards", m.Name, shown[m.Name])
		}
		if m.Help == "" {
			t.Errorf("%s has no help", m.Name)
		}
	}
	for _, r := range monitoring.Rules {
		for _, name := range monitoring.Names(r.Expr) {
			if !known[name] {
				t.Errorf("alert %s reads %s, which does not exist", r.Name, name)
			}
		}
		if r.Summary == "" || r.Action == "" || r.Severity != "page" && r.Severity != "ticket" {
			t.Errorf("alert %s is not complete: %+v", r.Name, r)
		}
	}
}
