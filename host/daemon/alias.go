package daemon

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// alias shows a metric under the name, or with the label, that it had before a rename. Dashboards
// and alerts of operators go on for one release.
type alias struct {
	old, name string // of the metric, both without the prefix

	label, value string // only series with this label, which the old metric lacked; empty: all
	was, is      string // old and new name of a label; empty: no label changed
}

// aliases are the renames of the release under way. Each goes with the release after it.
var aliases = []alias{
	{old: "arrivals_total", name: "releases_total"},
	{old: "held_total", name: "held_total", was: "fate", is: "outcome"},
	{old: "relay_panics_total", name: "panics_total", label: "where", value: "relay"},
	{old: "sync_panics_total", name: "panics_total", label: "where", value: "sync"},
}

// withAliases adds the series of all aliases to families, whose names begin with ownPrefix. It
// keeps them sorted by name.
func withAliases(families []*dto.MetricFamily) []*dto.MetricFamily {
	for _, a := range aliases {
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == ownPrefix+a.name })
		switch {
		case i < 0:
		case a.was != "":
			for _, m := range families[i].Metric {
				a.addLabel(m)
			}
		default:
			families = append(families, a.family(families[i]))
		}
	}
	slices.SortFunc(families, func(f, g *dto.MetricFamily) int { return strings.Compare(f.GetName(), g.GetName()) })
	return families
}

// addLabel adds the old name of a label to a series, with the same value.
func (a *alias) addLabel(m *dto.Metric) {
	for _, l := range m.Label {
		if l.GetName() == a.is {
			m.Label = append(m.Label, &dto.LabelPair{Name: &a.was, Value: l.Value})
			break
		}
	}
	slices.SortFunc(m.Label, func(k, l *dto.LabelPair) int { return strings.Compare(k.GetName(), l.GetName()) })
}

// family returns the family under its old name.
func (a *alias) family(f *dto.MetricFamily) *dto.MetricFamily {
	old, help := ownPrefix+a.old, "Old name of "+ownPrefix+a.name+", until the next release."
	made := &dto.MetricFamily{Name: &old, Help: &help, Type: f.Type, Unit: f.Unit}
	for _, m := range f.Metric {
		is := func(l *dto.LabelPair) bool { return l.GetName() == a.label && l.GetValue() == a.value }
		if a.label != "" && !slices.ContainsFunc(m.Label, is) {
			continue
		}
		made.Metric = append(made.Metric, &dto.Metric{
			Label:   slices.DeleteFunc(slices.Clone(m.Label), is),
			Counter: m.Counter, Gauge: m.Gauge, Summary: m.Summary, Untyped: m.Untyped, Histogram: m.Histogram, TimestampMs: m.TimestampMs,
		})
	}
	return made
}
