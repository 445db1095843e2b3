package result

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// CSV writes runs as four tables, which the columns scenario, level, set, variant
// and seed join.
type CSV struct {
	runs, series, staleness, relays, git, faults, findings, missing *csv.Writer

	err error
}

// Write adds the rows of a run.
func (c *CSV) Write(r *Run) error {
	key := []string{r.Scenario.Name, string(r.Level), strings.Join(texts(r.Set), " "), r.Variant(), strconv.FormatUint(r.Seed, 10)}
	with := func(w *csv.Writer, cells ...string) { c.row(w, append(key[:len(key):len(key)], cells...)) }
	row := []string{r.Scenario.Digest}
	for _, m := range []*Module{r.Strategy, r.Throttle} {
		if m == nil {
			m = new(Module)
		}
		row = append(row, m.Name, m.SHA256)
	}
	row = append(row, string(r.End.How), r.End.At.String(), strconv.Itoa(len(r.Findings)))
	for _, m := range Measures() {
		cell := ""
		if x, ok := r.Measures.Get(m); ok {
			cell = float(x)
		}
		row = append(row, cell)
	}
	with(c.runs, row...)
	at := func(i int) string { return (r.Series.Every * Seconds(i)).String() }
	for i, x := range r.Series.Completeness {
		with(c.series, "completeness", at(i), float(x))
	}
	for i, x := range r.Series.BytesUp {
		with(c.series, "bytes_up", at(i), whole(x))
	}
	for i, x := range r.Series.BytesDown {
		with(c.series, "bytes_down", at(i), whole(x))
	}
	for _, b := range r.Staleness.Bars() {
		with(c.staleness, b.LE.String(), strconv.FormatUint(b.Count, 10))
	}
	if n := r.Staleness.Missing; n > 0 {
		with(c.staleness, "inf", strconv.FormatUint(n, 10))
	}
	for i := range r.Relays {
		l := &r.Relays[i]
		with(c.relays, l.Name, l.Class, whole(l.BytesUp), whole(l.BytesDown), whole(l.Events), whole(l.Connections), l.Connected.String(),
			whole(l.REQs), whole(l.NegOpens), whole(l.RateLimited), whole(l.Peak))
	}
	for i := range r.Git {
		g := &r.Git[i]
		with(c.git, g.Name, g.Class, whole(g.Requests), whole(g.Refusals), whole(g.Fetched), whole(g.Bytes))
	}
	for _, f := range r.Faults {
		recovered := ""
		if f.Recovered != nil {
			recovered = f.Recovered.String()
		}
		with(c.faults, f.Kind, f.Where, f.At.String(), f.Until.String(), recovered)
	}
	for _, f := range r.Findings {
		with(c.findings, f.Invariant, f.At.String(), f.Relay, f.Text)
	}
	for _, m := range r.Missing {
		with(c.missing, m.Talon, m.ID, strconv.Itoa(m.Kind), strings.Join(m.Relays, " "))
	}
	return c.flush()
}

// row writes cells. A text that a spreadsheet would take for a formula is quoted with an
// apostrophe: names of modules and relays are anybody's.
func (c *CSV) row(w *csv.Writer, cells []string) {
	for i, cell := range cells {
		if _, err := strconv.ParseFloat(cell, 64); err != nil && cell != "" && (cell[0] == '=' || cell[0] == '+' || cell[0] == '-' || cell[0] == '@' || cell[0] == '\t' || cell[0] == '\r') {
			cells[i] = "'" + cell
		}
	}
	c.err = errors.Join(c.err, w.Write(cells))
}

func (c *CSV) flush() error {
	for _, w := range []*csv.Writer{c.runs, c.series, c.staleness, c.relays, c.git, c.faults, c.findings, c.missing} {
		if w != nil {
			w.Flush()
			c.err = errors.Join(c.err, w.Error())
		}
	}
	return c.err
}

// Table is one of the tables: the name of its file, and its columns.
type Table struct {
	File    string
	Doc     string
	Columns []string
}

var key = []string{"scenario", "level", "set", "variant", "seed"}

// Tables returns the tables and their columns.
func Tables() []Table {
	runs := append(append([]string{}, key...), "digest", "strategy", "strategy_sha256", "throttle", "throttle_sha256", "end", "end_at", "findings")
	for _, m := range Measures() {
		runs = append(runs, m.String())
	}
	with := func(columns ...string) []string { return append(append([]string{}, key...), columns...) }
	return []Table{
		{"runs.csv", "a row for each run, with a column for each measure; an empty cell was not measured", runs},
		{"series.csv", "a row for each value over time", with("series", "at", "value")},
		{"staleness.csv", "a row for each bucket: n times were at most le seconds, and above the le before; le is inf for events that never arrived", with("le", "n")},
		{"relays.csv", "a row for each relay", with("relay", "class", "bytes_up", "bytes_down", "events", "connections", "connected", "reqs", "neg_opens", "rate_limited", "peak_requests")},
		{"git.csv", "a row for each git server", with("server", "class", "requests", "refusals", "fetched", "bytes")},
		{"faults.csv", "a row for each fault of the world; an empty cell is a recovery that was not seen", with("kind", "where", "at", "until", "recovered")},
		{"findings.csv", "a row for each finding", with("invariant", "at", "relay", "text")},
		{"missing.csv", "a row for each wanted event that was not here at the end", with("talon", "id", "kind", "relays")},
	}
}

// NewCSV writes the heads of the tables. Open returns where the table of a name goes.
func NewCSV(open func(file string) (io.Writer, error)) (*CSV, error) {
	c := new(CSV)
	for i, to := range []**csv.Writer{&c.runs, &c.series, &c.staleness, &c.relays, &c.git, &c.faults, &c.findings, &c.missing} {
		t := Tables()[i]
		w, err := open(t.File)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", t.File, err)
		}
		*to = csv.NewWriter(w)
		c.row(*to, t.Columns)
	}
	return c, c.flush()
}

func float(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func whole(n int64) string { return strconv.FormatInt(n, 10) }
