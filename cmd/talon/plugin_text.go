package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"talon/host/plugin"
)

// plain returns text that a terminal shows and does not obey: modules and events
// may say anything.
func plain(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[n:]
	}
	return b.String()
}

// ago says how long ago a time was, as one would say it.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "at an unknown time"
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	}
	return fmt.Sprintf("%dd ago", d/(24*time.Hour))
}

// bytesText writes a size with one decimal at most.
func bytesText(n int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.bytes {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/float64(unit.bytes), 'f', 1, 64), ".0") + " " + unit.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// saidText is an opinion in a few words.
func saidText(s *plugin.Said) string {
	text := plain(s.Action)
	if s.Rule != "" {
		text += " " + plain(s.Rule)
	}
	if s.Plugin == "" {
		return text + " (no plugin had an opinion)"
	}
	return fmt.Sprintf("%s (%s, generation %d)", text, plain(s.Plugin), s.Generation)
}

// table writes rows of cells in columns, which two spaces keep apart.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		fmt.Fprint(t.w, plain(fmt.Sprint(cell)))
	}
	fmt.Fprintln(t.w)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
