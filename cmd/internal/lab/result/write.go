package result

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
)

// CSV writes runs as four tables, which the columns scenario, level, set, variant
// and seed join.
type CSV struct {
	runs, series, staleness, relays *csv.Writer
	err                             error
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
		{"relays.csv", "a row for each relay", with("relay", "class", "bytes_up", "bytes_down", "events", "connections", "connected", "reqs", "neg_opens", "rate_limited")},
	}
}

// NewCSV writes the heads of the tables. Open returns where the table of a name goes.
func NewCSV(open func(file string) (io.Writer, error)) (*CSV, error) {
	c := new(CSV)
	for i, to := range []**csv.Writer{&c.runs, &c.series, &c.staleness, &c.relays} {
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
			whole(l.REQs), whole(l.NegOpens), whole(l.RateLimited))
	}
	return c.flush()
}

func float(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func whole(n int64) string { return strconv.FormatInt(n, 10) }

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
	for _, w := range []*csv.Writer{c.runs, c.series, c.staleness, c.relays} {
		if w != nil {
			w.Flush()
			c.err = errors.Join(c.err, w.Error())
		}
	}
	return c.err
}

// maxLine is the longest line that is read: the rows of 10,000 relays with their load
// are below it.
const maxLine = 64 << 20

// Writer writes runs, one a line.
type Writer struct{ w *bufio.Writer }

func NewWriter(w io.Writer) *Writer { return &Writer{bufio.NewWriter(w)} }

// Write writes a run, whole or with an error. It flushes each line, so that finished runs
// are kept when the program is killed.
func (w *Writer) Write(r *Run) error {
	line, err := json.Marshal(r.versioned())
	if err != nil {
		return fmt.Errorf("encode a run: %w", err)
	}
	w.w.Write(append(line, '\n')) // Flush returns its error
	return w.w.Flush()
}

func (r *Run) versioned() *Run {
	c := *r
	c.Version = Version
	return &c
}

// Read returns the runs of a file. An error is the last thing that it yields.
func Read(r io.Reader) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 64<<10), maxLine)
		n := 0
		for lines.Scan() {
			n++
			if len(lines.Bytes()) == 0 {
				continue
			}
			run, err := parse(lines.Bytes())
			if err != nil {
				yield(nil, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(run, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("it is longer than %d MiB", maxLine>>20)
			}
			yield(nil, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

func parse(line []byte) (*Run, error) {
	var v struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, fmt.Errorf("not a run of the lab: %w", err)
	}
	if v.Version != Version {
		if v.Version == "" {
			return nil, errors.New("not a run of the lab: it has no version")
		}
		return nil, fmt.Errorf("its version is %.40q, and this talon reads %s", v.Version, Version)
	}
	run := new(Run)
	if err := json.Unmarshal(line, run); err != nil {
		return nil, fmt.Errorf("not a run of the lab: %w", err)
	}
	return run, run.check()
}

// check refuses what no run of the lab has, so that what uses runs need not.
func (r *Run) check() error {
	if r.Strategy == nil && r.Throttle == nil {
		return errors.New("not a run of the lab: it names neither a strategy nor a throttle")
	}
	switch r.End.How {
	case Finished, CutShort, BrokenInvariant, ModuleFailed:
	default:
		return fmt.Errorf("not a run of the lab: it ended %.40q", string(r.End.How))
	}
	s := &r.Series
	if n := max(len(s.Completeness), len(s.BytesUp), len(s.BytesDown)); n > 0 && s.Every <= 0 {
		return errors.New("not a run of the lab: a series without a time between its values")
	}
	for i := range r.Relays {
		if len(r.Relays[i].Load) > 0 && r.LoadEvery <= 0 {
			return errors.New("not a run of the lab: the load of relays without a width of its buckets")
		}
	}
	return nil
}
