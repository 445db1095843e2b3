package scenario

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"talon/internal/tomlschema"
)

// Step is a latency from a time on.
type Step struct {
	From time.Duration // since the begin of the run
	MS   float64       // one way
}

// Span is a measured outage.
type Span struct {
	From, Until time.Duration // since the begin of the run
	Status      int           // of HTTP; 0: connections are refused
}

// MeasuredLatencies returns the latencies of [Relays.Latencies]: a list for each relay that the text
// names, in the order of their first lines.
func (r *Relays) MeasuredLatencies() ([][]Step, error) {
	return measured("latencies", r.Latencies, 3, 3, func(row []string) (s Step, err error) {
		if s.From, err = sinceBegin(row[1]); err != nil {
			return s, err
		}
		if s.MS, err = strconv.ParseFloat(row[2], 64); err != nil || !(s.MS >= 0 && s.MS <= 60_000) {
			return s, fmt.Errorf("%.40q: want milliseconds, 0 to 60000", row[2])
		}
		return s, nil
	}, func(a, b Step) int { return cmp.Compare(a.From, b.From) })
}

// MeasuredOutages returns the outages of [Relays.Outages], likewise.
func (r *Relays) MeasuredOutages() ([][]Span, error) {
	return measured("outages", r.Outages, 3, 4, func(row []string) (s Span, err error) {
		if s.From, err = sinceBegin(row[1]); err != nil {
			return s, err
		}
		if s.Until, err = sinceBegin(row[2]); err != nil {
			return s, err
		}
		if s.Until-s.From < time.Millisecond {
			return s, fmt.Errorf("%.40q to %.40q: want an end after the begin", row[1], row[2])
		}
		if len(row) == 4 && row[3] != "" {
			if s.Status, err = strconv.Atoi(row[3]); err != nil || s.Status != 0 && (s.Status < 100 || s.Status > 599) {
				return s, fmt.Errorf("%.40q: want an HTTP status from 100 to 599, or 0", row[3])
			}
		}
		return s, nil
	}, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
}

// measured reads lines of comma-separated values. The first value names a relay. A first line that
// begins with the word relay is a heading.
func measured[T any](key, text string, low, limit int, parse func(row []string) (T, error), order func(a, b T) int) (lists [][]T, err error) {
	rows := csv.NewReader(strings.NewReader(text))
	rows.Comment, rows.TrimLeadingSpace, rows.FieldsPerRecord, rows.ReuseRecord = '#', true, -1, true
	index := map[string]int{}
	for first := true; ; first = false {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if first && row[0] == "relay" {
			continue
		}
		line, _ := rows.FieldPos(0)
		if len(row) < low || len(row) > limit {
			return nil, fmt.Errorf("%s: line %d: want %d to %d values", key, line, low, limit)
		}
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		if row[0] == "" {
			return nil, fmt.Errorf("%s: line %d: want the name of a relay as the first value", key, line)
		}
		one, err := parse(row)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", key, line, err)
		}
		i, ok := index[row[0]]
		if !ok {
			i = len(lists)
			index[row[0]] = i
			lists = append(lists, nil)
		}
		lists[i] = append(lists[i], one)
	}
	for _, list := range lists {
		slices.SortStableFunc(list, order)
	}
	return lists, nil
}

// sinceBegin reads seconds, or a length of time such as 1h30m.
func sinceBegin(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 && seconds <= tomlschema.MaxDuration.Seconds() {
		return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond), nil
	}
	d, err := tomlschema.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%.40q: want seconds, or a length of time such as 1h30m", text)
	}
	return time.Duration(d), nil
}

// readFiles puts the text of the files that classes of relays name into their keys, so that the
// scenario needs no other file. Paths are relative to dir. It reports whether there was a file.
func (s *Scenario) readFiles(dir string) (any bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Relays)) {
		r := s.Relays[name]
		for _, f := range []struct {
			key        string
			path, text *string
		}{{"latency-file", &r.LatencyFile, &r.Latencies}, {"outage-file", &r.OutageFile, &r.Outages}} {
			if *f.path == "" {
				continue
			}
			text, err := readShort(filepath.Join(dir, *f.path))
			if err != nil {
				return false, fmt.Errorf("relays.%s.%s: %w", name, f.key, err)
			}
			*f.text, *f.path, any = text, "", true
		}
		s.Relays[name] = r
	}
	return any, nil
}

// readShort reads a file that fits into the text of a scenario.
func readShort(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText/2+1))
	if err == nil && len(text) > maxText/2 {
		err = fmt.Errorf("%s has more than %d bytes", path, maxText/2)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n"), err
}

// checkMeasured checks the texts of measured latencies and outages.
func (r *Relays) checkMeasured() error {
	switch {
	case r.LatencyFile != "":
		return errors.New("latency-file: want it in the file of a scenario; --set takes latencies, its text")
	case r.OutageFile != "":
		return errors.New("outage-file: want it in the file of a scenario; --set takes outages, its text")
	}
	if _, err := r.MeasuredLatencies(); err != nil {
		return err
	}
	_, err := r.MeasuredOutages()
	return err
}
