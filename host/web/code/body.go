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
	chroma sync.Mutex // is held while package chroma colours a file: one at a time

	mu   sync.Mutex // guards kept
	kept recent.Map[bodyKey, body]
}

// bodyKey names a file as a page shows it. The name decides about the language.
type bodyKey struct {
	blob, name string
	chroma     bool // package chroma has coloured it
}

// body is the lines of a file as a page shows them.
type body struct {
	html string
	cut  bool // a line is longer than what is shown of it
}

func newBodies() *bodies { return &bodies{kept: recent.Map[bodyKey, body]{Size: bodyBytes}} }

func (b *bodies) get(key bodyKey) (shown body, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	shown, aging, ok := b.kept.Get(key)
	if ok && aging {
		b.kept.Add(key, shown, len(shown.html))
	}
	return shown, ok
}

func (b *bodies) put(key bodyKey, shown body) {
	if len(shown.html) >= bodyBytes/4 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept.Add(key, shown, len(shown.html))
}

// lines returns the lines of a file, those between from and to marked. It reports whether it has
// cut one.
func (b *bodies) lines(blob, name string, l *language, content []byte, lines, from, to int) (template.HTML, bool) {
	key := bodyKey{blob, strings.ToLower(name), fitsChroma(content, lines)}
	shown, ok := b.get(key)
	if !ok && key.chroma {
		if shown, ok = b.colour(name, string(content)); ok {
			b.put(key, shown)
		}
		key.chroma = false
	}
	if !ok {
		if shown, ok = b.get(key); !ok {
			shown = makeBody(string(content), l)
			b.put(key, shown)
		}
	}
	return template.HTML(highlight(shown.html, from, to)), shown.cut
}

// colour has package chroma colour a file. It reports false if it colours another one now.
func (b *bodies) colour(name, content string) (body, bool) {
	if !b.chroma.TryLock() {
		return body{}, false
	}
	defer b.chroma.Unlock()
	content = strings.TrimPrefix(content, "\ufeff")
	parts, ok := tokenise(name, content)
	if !ok {
		return body{}, false
	}
	return body{html: string(appendLines(make([]byte, 0, 3*len(content)), content, parts)), cut: hasLongLine(content)}, true
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
	return body{html: string(appendLines(make([]byte, 0, 2*len(content)), content, partsOf(l, content))), cut: hasLongLine(content)}
}

// partsOf finds the parts of a file. A language without strings and comments has one.
func partsOf(l *language, content string) []part {
	if l.quotes == "" && l.lineComments == nil && l.blockComments == nil {
		return []part{{len(content), classText}}
	}
	return scan(l, content)
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
		b, parts = appendLine(b, content, begin, end, parts)
		b = append(b, "\n</span>"...)
		begin = end + 1
	}
	return b
}

// cutMark is shown where a line goes on that is too long.
const cutMark = `<span class="u">…</span>`

// appendLine writes a line of the content without its end, as far as a page shows it. It returns the
// parts that may reach behind it.
func appendLine(b []byte, content string, begin, end int, parts []part) ([]byte, []part) {
	if end > begin && content[end-1] == '\r' {
		end--
	}
	cut := end-begin > maxLine
	if cut {
		end = begin + maxLine
	}
	b, parts = appendParts(b, content, begin, end, parts)
	if cut {
		b = append(b, cutMark...)
	}
	return b, parts
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
