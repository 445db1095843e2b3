// Package monitoring writes dashboards for Grafana and alert rules for Prometheus, from the list
// of metrics that a server has.
package monitoring

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Metric is one metric of a server.
type Metric struct {
	Name, Help string
	Type       string   // counter, gauge or histogram
	Labels     []string // that vary
}

// board is a dashboard: the metrics whose names begin with one of the prefixes. The first board
// with the longest matching prefix has the metric.
type board struct {
	file, title string
	prefixes    []string
}

var boards = []board{
	{"talon-relay", "Talon: relay", []string{"talon_relay_", "talon_client_", "talon_http_", "talon_events_", "talon_retr"}},
	{"talon-modules", "Talon: modules and decisions", []string{"talon_plugin_", "talon_decision", "talon_redeci", "talon_contended_", "talon_exclusive_", "talon_verify_"}},
	{"talon-sync", "Talon: sync", []string{"talon_sync_"}},
	{"talon-git", "Talon: git", []string{"talon_git_", "talon_repo_", "talon_releases_"}},
	{"talon-purgatory", "Talon: purgatory and the hunt", []string{"talon_held_", "talon_purgatory_"}},
	{"talon-store", "Talon: store, disk and process", []string{"talon_store_", "talon_commit_", "talon_ingest_", "talon_expired_", "talon_disk_", "talon_backup_", "talon_panics_", "talon_"}},
}

// Files returns the dashboards and the alert rules, by file name.
func Files(metrics []Metric) (map[string][]byte, error) {
	files := map[string][]byte{"talon-alerts.yml": Alerts()}
	has := make(map[string][]Metric)
	for _, m := range metrics {
		b := boardOf(m.Name)
		has[b.file] = append(has[b.file], m)
	}
	for _, b := range boards {
		text, err := b.json(has[b.file])
		if err != nil {
			return nil, fmt.Errorf("write dashboard %s: %w", b.file, err)
		}
		files[b.file+".json"] = text
	}
	return files, nil
}

func boardOf(metric string) board {
	best, length := boards[0], 0
	for _, b := range boards {
		for _, prefix := range b.prefixes {
			if strings.HasPrefix(metric, prefix) && len(prefix) > length {
				best, length = b, len(prefix)
			}
		}
	}
	return best
}

// Query is an expression that a panel shows.
type Query struct {
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
	Ref    string `json:"refId"`
}

// interval is Grafana's variable for the range of a rate.
const interval = "$__rate_interval"

// shownName is the name of a metric on a dashboard. Metrics of sync and the hunt begin with the
// option metrics-prefix, which the dashboard asks for.
func (m Metric) shownName() string {
	for _, part := range []string{"_sync_", "_purgatory_"} {
		if rest, is := strings.CutPrefix(m.Name, "talon"+part); is {
			return "${prefix}" + part + rest
		}
	}
	return m.Name
}

// Queries returns what shows a metric.
func (m Metric) Queries() []Query {
	name := m.shownName()
	legend := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		legend[i] = "{{" + l + "}}"
	}
	shown := strings.Join(legend, " ")
	by := strings.Join(m.Labels, ", ")
	switch {
	case m.Type == "histogram":
		le := strings.Trim("le, "+by, ", ")
		rate := fmt.Sprintf("sum by (%s) (rate(%s_bucket[%s]))", le, name, interval)
		return []Query{
			{fmt.Sprintf("histogram_quantile(0.5, %s)", rate), strings.TrimSpace(shown + " p50"), "A"},
			{fmt.Sprintf("histogram_quantile(0.99, %s)", rate), strings.TrimSpace(shown + " p99"), "B"},
		}
	case m.Type == "counter":
		return []Query{{fmt.Sprintf("sum by (%s) (rate(%s[%s]))", by, name, interval), cmp.Or(shown, "a second"), "A"}}
	case strings.HasSuffix(m.Name, "_timestamp_seconds"):
		return []Query{{fmt.Sprintf("time() - (%s > 0)", name), cmp.Or(shown, "age"), "A"}}
	}
	return []Query{{name, cmp.Or(shown, "{{instance}}"), "A"}}
}

// unit is Grafana's unit for the values of a metric.
func (m Metric) unit() string {
	base := strings.TrimSuffix(m.Name, "_total")
	switch {
	case strings.HasSuffix(base, "_seconds"):
		return "s"
	case strings.HasSuffix(base, "_bytes") && m.Type == "counter", strings.Contains(base, "_bytes_") && m.Type == "counter":
		return "Bps"
	case strings.HasSuffix(base, "_bytes"):
		return "bytes"
	case m.Type == "counter":
		return "cps"
	}
	return "short"
}

// Sizes of a panel, in Grafana's grid of 24 columns.
const (
	panelWidth  = 8
	panelHeight = 7
	gridWidth   = 24
)

func (b board) json(metrics []Metric) ([]byte, error) {
	slices.SortFunc(metrics, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${source}"}
	panels := make([]object, 0, len(metrics))
	for i, m := range metrics {
		panels = append(panels, object{
			"id": i + 1, "type": "timeseries", "title": title(m.Name), "description": m.Help + " (" + m.Name + ")", "datasource": source,
			"gridPos":     object{"x": i % (gridWidth / panelWidth) * panelWidth, "y": i / (gridWidth / panelWidth) * panelHeight, "w": panelWidth, "h": panelHeight},
			"fieldConfig": object{"defaults": object{"unit": m.unit(), "min": 0}, "overrides": []any{}},
			"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
			"targets":     m.Queries(),
		})
	}
	prefix := object{"name": "prefix", "label": "metrics-prefix", "type": "textbox", "query": "talon", "current": object{"text": "talon", "value": "talon"}}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(object{
		"uid": b.file, "title": b.title, "tags": []string{"talon"}, "schemaVersion": 39, "editable": true, "refresh": "30s",
		"time":       object{"from": "now-6h", "to": "now"},
		"templating": object{"list": []object{{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}, prefix}},
		"links":      []object{{"type": "dashboards", "title": "Talon", "tags": []string{"talon"}, "asDropdown": true}},
		"panels":     panels,
	})
	return out.Bytes(), err
}

func title(name string) string {
	words := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(name, "talon_"), "_total"), "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// Alert is a rule of Prometheus. Its text is for the person who is called.
type Alert struct {
	Name, Expr, For, Severity, Summary, Action string
}

// Rules are the alerts. page calls somebody at night, ticket can wait.
var Rules = []Alert{
	{"TalonDown", `up{job="talon"} == 0`, "2m", "page", "Talon does not answer", "Look at the service and its log."},
	{"TalonDiskFull", "talon_disk_full > 0", "1m", "page", "the disk is nearly full: events and pushes are refused", "Make room, or lower min-free."},
	{"TalonDiskFillsSoon", "predict_linear(talon_disk_free_bytes[6h], 24 * 3600) < talon_disk_min_free_bytes", "1h", "ticket", "the disk of {{ $labels.folder }} is full within a day", "Make room."},
	{"TalonStoreFails", "rate(talon_store_put_errors_total[5m]) > 0", "5m", "page", "events cannot be stored", "The log says why: a full or broken disk, or a database that is away."},
	{"TalonPanics", "increase(talon_panics_total[1h]) > 0", "0m", "ticket", "a part panicked ({{ $labels.where }}) and went on", "Report the stack in the log."},
	{"TalonPolicyFails", `sum by (module) (rate(talon_plugin_failures_total[10m])) > 0.1`, "10m", "ticket", "module {{ $labels.module }} fails", "talon plugin show {{ $labels.module }}"},
	{"TalonPolicyQuarantined", "talon_plugin_quarantined > 0", "5m", "page", "module {{ $labels.module }} is switched off after failures", "talon plugin show {{ $labels.module }}, then swap or roll back."},
	{"TalonBackupOld", "time() - (talon_backup_last_success_timestamp_seconds > 0) > 2 * 86400", "1h", "ticket", "the last good backup is older than two days", "Run talon backup and look at its error."},
	{"TalonBackupFails", "increase(talon_backup_failures_total[1d]) > 0", "0m", "ticket", "a backup failed", "The log has the reason."},
	{"TalonGitWaits", "sum(talon_git_waiting) > 20", "10m", "ticket", "git requests wait for a slot", "See git-fetches and git-pushes, and who uses them."},
	{"TalonRelayDead", "talon_sync_relay_status == 3", "10m", "ticket", "{{ $labels.relay }} has failed for a day", "talon sync status"},
	{"TalonSyncIncomplete", "talon_sync_relays_tracked_total > 0 and talon_sync_relays_complete_total == 0", "1h", "ticket", "no relay is complete", "talon sync status says what is open and since when."},
	{"TalonSlowDecisions", "histogram_quantile(0.99, sum by (le) (rate(talon_decision_seconds_bucket[10m]))) > 1", "15m", "ticket", "decisions about events take over a second (p99)", "talon plugin list shows the cost of each module."},
	{"TalonPurgatoryFull", `sum by (limit) (rate(talon_held_quota_refused_total[10m])) > 1`, "15m", "ticket", "events are refused because too many wait for git data ({{ $labels.limit }})", "talon hunt status"},
}

// Alerts returns the rules as a file for Prometheus.
func Alerts() []byte {
	var b bytes.Buffer
	b.WriteString("# Generated: go test ./host/daemon -run Monitoring -update\ngroups:\n  - name: talon\n    rules:\n")
	for _, r := range Rules {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n", r.Name, quote(r.Expr))
		if r.For != "0m" {
			fmt.Fprintf(&b, "        for: %s\n", r.For)
		}
		fmt.Fprintf(&b, "        labels: {severity: %s}\n        annotations:\n          summary: %s\n          action: %s\n", r.Severity, quote(r.Summary), quote(r.Action))
	}
	return b.Bytes()
}

// quote writes a string of YAML in single quotes.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

var metricName = regexp.MustCompile(`talon_[a-z_]+`)

// Names returns the metrics that an expression reads, without the suffixes of histograms.
func Names(expr string) (list []string) {
	for _, name := range metricName.FindAllString(strings.ReplaceAll(expr, "${prefix}", "talon"), -1) {
		list = append(list, strings.TrimSuffix(name, "_bucket"))
	}
	return list
}
