package code

import (
	"html/template"
	"strconv"
	"strings"

	"talon/host/gitread"
)

// diffView is a diff as a page shows it.
type diffView struct {
	Files   []fileView
	Count   int
	Added   int
	Removed int
	Cut     bool
	NoLines bool
	Hidden  int // files that the list does not have
}

// fileView is one file of a diff.
type fileView struct {
	Anchor  string
	Name    string
	Old     string // the name before, if it differs
	Status  string
	Note    string // a change of its mode
	Added   int
	Removed int
	Binary  bool
	Cut     bool
	Open    bool
	Rows    template.HTML
	URL     template.URL // of the file afterwards; "" if it has gone
	Before  template.URL // of a file that has gone
}

// openLines is how many lines of a diff are unfolded.
const openLines = 3000

// statuses are the words for what happened to a file.
var statuses = map[byte]string{'A': "added", 'D': "deleted", 'M': "changed", 'R': "renamed", 'C': "copied", 'T': "changed its type"}

// diffView returns a diff between two commits as a page shows it. Links to files that
// have gone lead to from, if it is not zero.
func (q *Request) diffView(d *gitread.Diff, from, to gitread.Target) diffView {
	v := diffView{Count: d.Count, Added: d.Added, Removed: d.Removed, Cut: d.Cut, NoLines: d.NoLines, Hidden: d.Count - len(d.Files)}
	lines := 0
	for i, f := range d.Files {
		one := fileView{
			Anchor: "f" + strconv.Itoa(i+1), Name: fileName(f.Name()), Status: statuses[f.Status], Added: f.Added, Removed: f.Removed, Binary: f.Binary, Cut: f.Cut,
		}
		if f.Old != "" && f.New != "" && f.Old != f.New {
			one.Old = fileName(f.Old)
		}
		switch {
		case f.NewMode == gitread.ModeCommit || f.OldMode == gitread.ModeCommit:
			one.Note = "submodule"
		case f.OldMode != 0 && f.NewMode != 0 && f.OldMode != f.NewMode:
			one.Note = f.OldMode.String() + " → " + f.NewMode.String()
		}
		if f.New != "" && f.NewMode != gitread.ModeCommit {
			one.URL = template.URL(q.url("blob", to, strings.Split(f.New, "/")...))
		}
		if f.New == "" && from.Commit != "" && f.OldMode != gitread.ModeCommit {
			one.Before = template.URL(q.url("blob", from, strings.Split(f.Old, "/")...))
		}
		for _, h := range f.Hunks {
			lines += len(h.Lines)
		}
		one.Open = lines <= openLines
		if len(f.Hunks) > 0 {
			one.Rows = template.HTML(appendHunks(nil, f))
		}
		v.Files = append(v.Files, one)
	}
	return v
}

// appendHunks writes the lines of a file.
func appendHunks(b []byte, f *gitread.FileDiff) []byte {
	for _, h := range f.Hunks {
		b = append(b, `<tr class="h"><td colspan="3">@@ −`...)
		b = strconv.AppendInt(b, int64(h.OldStart), 10)
		b = append(b, " +"...)
		b = strconv.AppendInt(b, int64(h.NewStart), 10)
		b = append(b, ' ')
		b = appendCode(b, cutLine(withoutCR(h.Section), 200))
		b = append(b, "</td></tr>\n"...)
		before, after := h.OldStart, h.NewStart
		for i := 0; i < len(h.Lines); {
			// Lines that one line replaces are compared with it, word by word.
			removed := runOf(h.Lines[i:], '-')
			added := runOf(h.Lines[i+removed:], '+')
			if removed == 0 && added == 0 {
				l := h.Lines[i]
				i++
				if l.Kind == '\\' {
					b = append(b, `<tr class="h"><td colspan="3">No line break at the end of the file</td></tr>`+"\n"...)
					continue
				}
				b = appendRow(b, "", before, after, withoutCR(l.Text), 0, 0)
				before++
				after++
				continue
			}
			for j := range removed {
				line, prefix, suffix := withoutCR(h.Lines[i+j].Text), 0, 0
				if removed == added {
					line, prefix, suffix = compareLine(h.Lines[i+j].Text, h.Lines[i+removed+j].Text)
				}
				b = appendRow(b, "d", before, 0, line, prefix, suffix)
				before++
			}
			for j := range added {
				line, prefix, suffix := withoutCR(h.Lines[i+removed+j].Text), 0, 0
				if removed == added {
					line, prefix, suffix = compareLine(h.Lines[i+removed+j].Text, h.Lines[i+j].Text)
				}
				b = appendRow(b, "a", 0, after, line, prefix, suffix)
				after++
			}
			i += removed + added
		}
	}
	return b
}

// runOf returns how many lines of a kind come first.
func runOf(lines []gitread.DiffLine, kind byte) int {
	for i, l := range lines {
		if l.Kind != kind {
			return i
		}
	}
	return len(lines)
}

// withoutCR returns a line without the end that files of Windows have.
func withoutCR(line string) string { return strings.TrimSuffix(line, "\r") }

// compareLine returns a line as it is shown in the place of another, and which part of it differs. The
// end of a Windows line is shown if nothing else differs.
func compareLine(line, other string) (shown string, prefix, suffix int) {
	if line, other := withoutCR(line), withoutCR(other); line != other {
		prefix, suffix = common(line, other)
		return line, prefix, suffix
	}
	return line, 0, 0
}

// common returns how many bytes at the start and at the end of a line are the same in another. It is
// 0, 0 if that says nothing: the lines have little in common, or too much is between.
func common(s, other string) (prefix, suffix int) {
	n := min(len(s), len(other))
	for prefix < n && s[prefix] == other[prefix] {
		prefix++
	}
	for prefix > 0 && prefix < len(s) && isWord(s[prefix-1]) && isWord(s[prefix]) {
		prefix-- // marks begin with a word
	}
	for suffix < n-prefix && s[len(s)-1-suffix] == other[len(other)-1-suffix] {
		suffix++
	}
	for suffix > 0 && suffix < len(s) && isWord(s[len(s)-suffix]) && isWord(s[len(s)-suffix-1]) {
		suffix--
	}
	if len(strings.TrimSpace(s[:prefix]))+len(strings.TrimSpace(s[len(s)-suffix:])) < len(s)/4 {
		return 0, 0
	}
	return prefix, suffix
}

// appendRow writes a line of a diff. Prefix and suffix are the bytes that did not change, if either
// is not 0.
func appendRow(b []byte, class string, before, after int, line string, prefix, suffix int) []byte {
	b = append(b, `<tr class="`...)
	b = append(b, class...)
	b = append(b, `"><td class="b">`...)
	if before > 0 {
		b = strconv.AppendInt(b, int64(before), 10)
	}
	b = append(b, `</td><td class="b">`...)
	if after > 0 {
		b = strconv.AppendInt(b, int64(after), 10)
	}
	b = append(b, `</td><td class="t">`...)
	if shown := cutLine(line, maxLine); shown != line {
		b = appendCode(b, shown)
		b = append(b, cutMark...)
	} else if prefix == 0 && suffix == 0 {
		b = appendCode(b, line)
	} else {
		b = appendCode(b, line[:prefix])
		if end := len(line) - suffix; end > prefix {
			b = append(b, `<span class="w">`...)
			b = appendCode(b, line[prefix:end])
			b = append(b, "</span>"...)
		}
		b = appendCode(b, line[len(line)-suffix:])
	}
	return append(b, "</td></tr>\n"...)
}

// cutLine returns at most limit bytes of a line.
func cutLine(line string, limit int) string {
	if len(line) > limit {
		return line[:limit]
	}
	return line
}
