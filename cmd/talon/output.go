package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// progress keeps one line up to date on a terminal. Elsewhere it does nothing.
type progress struct {
	w    io.Writer
	last time.Time
}

func newProgress(w io.Writer) *progress {
	if terminal(w) {
		return &progress{w: w, last: time.Now()}
	}
	return &progress{}
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// show replaces the line, a few times a second at most.
func (p *progress) show(line func() string) {
	const every = 200 * time.Millisecond
	if p.w == nil || time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.w, "\r\x1b[K%s", line())
}

// end removes the line.
func (p *progress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// columns returns how wide a table may be: that of the terminal, or COLUMNS, or 0 for as
// wide as it is.
func columns(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			return int(size.Col)
		}
	}
	return 0
}

// redOn returns a function that makes a text red, if w is a terminal and NO_COLOR is not set.
func redOn(w io.Writer) func(string) string {
	if f, ok := w.(*os.File); ok && os.Getenv("NO_COLOR") == "" {
		if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			return func(s string) string { return "\x1b[31m" + s + "\x1b[0m" }
		}
	}
	return func(s string) string { return s }
}

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

// shown is text of a relay as a terminal may see it.
func shown(text string) string {
	const maximum = 500
	text = plain(text)
	if len(text) > maximum {
		text = text[:maximum] + "…"
	}
	return text
}

// plainError is an error that may quote a relay, as a terminal may see it.
func plainError(err error) error { return errors.New(shown(err.Error())) }

// plainLines is text of git as a terminal may see it, with its lines.
func plainLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = plain(strings.TrimSuffix(lines[i], "\r"))
	}
	return strings.Join(lines, "\n")
}

// quoted is an error that may quote what a module or a file says.
func quoted(err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return errors.New(strings.Join(lines, "; "))
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok && !strings.HasSuffix(stem, "a") {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
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

// in says how long it is until a time.
func in(t, now time.Time) string {
	d := t.Sub(now)
	if d <= 0 {
		return "now"
	}
	return "in " + d.Round(time.Second).String()
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
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

// section begins another table: columns do not go on over a blank line.
func (t table) section(head ...any) {
	t.row()
	t.row(head...)
}

// jsonFlag adds the option --json, which printFound obeys.
func jsonFlag(cmd *cobra.Command, usage string) { cmd.Flags().Bool("json", false, usage) }

// printFound writes what a command has found: as JSON if that is asked for, or as text.
func printFound(cmd *cobra.Command, found any, text func(w io.Writer) error) error {
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		return printJSON(cmd.OutOrStdout(), found)
	}
	return text(cmd.OutOrStdout())
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
