//go:build !race

package daemon

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Each renamed metric also appears under its old name, or with its old label, and with the same
// values. Another prefix and the label of a node apply to both.
func TestAliases(t *testing.T) {
	r := newRegistry("test", "ngit", "one")
	releases := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "talon_releases_total"}, []string{"outcome"})
	releases.WithLabelValues("released").Add(3)
	releases.WithLabelValues("nothing").Add(2)
	held := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "talon_held_total"}, []string{"outcome", "kind"})
	held.WithLabelValues("expired", "30618").Add(5)
	list := []prometheus.Collector{releases, held}
	for i, where := range []string{"http", "relay", "sync"} {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "talon_panics_total", ConstLabels: prometheus.Labels{"where": where}})
		c.Add(float64(i + 1))
		list = append(list, c)
	}
	if err := r.Register(list...); err != nil {
		t.Fatal(err)
	}

	families, err := r.gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "ngit_") || f.GetName() == "ngit_build_info" {
			continue
		}
		for _, m := range f.Metric {
			got = append(got, series(f.GetName(), m))
		}
	}
	want := []string{
		"ngit_arrivals_total node=one outcome=nothing 2",
		"ngit_arrivals_total node=one outcome=released 3",
		"ngit_held_total fate=expired kind=30618 node=one outcome=expired 5",
		"ngit_panics_total node=one where=http 1",
		"ngit_panics_total node=one where=relay 2",
		"ngit_panics_total node=one where=sync 3",
		"ngit_relay_panics_total node=one 2",
		"ngit_releases_total node=one outcome=nothing 2",
		"ngit_releases_total node=one outcome=released 3",
		"ngit_sync_panics_total node=one 3",
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Every alias is one of a metric that the server has, and no metric has the old name.
func TestAliasesHaveMetrics(t *testing.T) {
	has := make(map[string]bool)
	for _, c := range assembled(t, "talon") {
		for _, line := range described(t, c) {
			name, _, _ := strings.Cut(line, "{")
			has[name] = true
		}
	}
	for _, a := range aliases {
		if !has[ownPrefix+a.name] {
			t.Errorf("%s is no metric", a.name)
		}
		if a.was == "" && has[ownPrefix+a.old] {
			t.Errorf("%s is a metric, not an old name", a.old)
		}
	}
}

// series formats one counter with its labels.
func series(name string, m *dto.Metric) string {
	parts := []string{name}
	for _, l := range m.Label {
		parts = append(parts, l.GetName()+"="+l.GetValue())
	}
	return strings.Join(append(parts, strconv.FormatFloat(m.GetCounter().GetValue(), 'g', -1, 64)), " ")
}
