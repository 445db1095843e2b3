package code

import (
	"html/template"
	"strconv"
	"strings"
	"sync"

	"talon/internal/recent"
)

// bodyBytes is the size of the files that are kept as they are shown; twice as much for those that
// were shown last.
const bodyBytes = 16 << 20

// bodies keeps files as pages show them.
type bodies struct {
	mu   sync.Mutex // guards kept
	kept recent.Map[bodyKey, body]
}

type bodyKey struct{ blob, language string }

// body is the lines of a file as a page shows them.
type body struct {
	html string
	cut  bool // a line is longer than what is shown of it
}

func newBodies() *bodies { return &bodies{kept: recent.Map[bodyKey, body]{Size: bodyBytes}} }

// lines returns the lines of a file, those between from and to marked. It reports whether it has
// cut one.
func (b *bodies) lines(blob string, l *language, content []byte, from, to int) (template.HTML, bool) {
	key := bodyKey{blob, l.name}
	b.mu.Lock()
	shown, aging, ok := b.kept.Get(key)
	if ok && aging {
		b.kept.Add(key, shown, len(shown.html))
	}
	b.mu.Unlock()
	if !ok {
		shown = makeBody(string(content), l)
		if len(shown.html) < bodyBytes/4 {
			b.mu.Lock()
			b.kept.Add(key, shown, len(shown.html))
			b.mu.Unlock()
		}
	}
	return template.HTML(highlight(shown.html, from, to)), shown.cut
}

const lineStart = `<span class="l" id="L`

// highlight marks lines of a body.
func highlight(html string, from, to int) string {
	if from == 0 {
		return html
	}
	begin := strings.Index(html, lineStart+strconv.Itoa(from)+`"`)
	end := strings.Index(html, lineStart+strconv.Itoa(to+1)+`"`)
	if begin < 0 {
		return html
	}
	if end < begin {
		end = len(html)
	}
	return html[:begin] + strings.ReplaceAll(html[begin:end], `<span class="l" `, `<span class="l m" `) + html[end:]
}

// makeBody colours a file.
func makeBody(content string, l *language) body {
	content = strings.TrimPrefix(content, "\ufeff")
	var parts []part
	if l.quotes != "" || l.lineComments != nil || l.blockComments != nil {
		parts = scan(l, content)
	} else {
		parts = []part{{len(content), classText}}
	}
	return body{html: string(appendLines(make([]byte, 0, 2*len(content)), content, parts)), cut: hasLongLine(content)}
}

func hasLongLine(content string) bool {
	for line := range strings.Lines(content) {
		if len(line) > maxLine {
			return true
		}
	}
	return false
}

// appendLines writes each line as an element with its number.
func appendLines(b []byte, content string, parts []part) []byte {
	number, begin := 0, 0
	for begin < len(content) {
		number++
		end := len(content)
		if i := strings.IndexByte(content[begin:], '\n'); i >= 0 {
			end = begin + i
		}
		n := strconv.Itoa(number)
		b = append(b, lineStart...)
		b = append(b, n...)
		b = append(b, `"><a href="#L`...)
		b = append(b, n...)
		b = append(b, `">`...)
		b = append(b, n...)
		b = append(b, "</a>"...)
		shown := end
		if shown > begin && content[shown-1] == '\r' {
			shown--
		}
		cut := shown-begin > maxLine
		if cut {
			shown = begin + maxLine
		}
		b, parts = appendParts(b, content, begin, shown, parts)
		if cut {
			b = append(b, `<span class="u">…</span>`...)
		}
		b = append(b, "\n</span>"...)
		begin = end + 1
	}
	return b
}

// appendParts writes a piece of the content. It returns the parts that may reach behind it.
func appendParts(b []byte, content string, begin, end int, parts []part) ([]byte, []part) {
	for begin < end {
		for len(parts) > 1 && parts[0].end <= begin {
			parts = parts[1:]
		}
		to, c := end, classText
		if len(parts) > 0 && parts[0].end > begin {
			to, c = min(end, parts[0].end), parts[0].class
		}
		if c == classText {
			b = appendCode(b, content[begin:to])
		} else {
			b = append(b, `<span class="`...)
			b = append(b, byte(c))
			b = append(b, `">`...)
			b = appendCode(b, content[begin:to])
			b = append(b, "</span>"...)
		}
		begin = to
	}
	return b, parts
}
