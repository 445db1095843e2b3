package web

import (
	"html/template"
	"strings"

	"talon/host/web/markdown"
)

// maxPatchLines bounds the lines of a patch on a page.
const maxPatchLines = 3000

// patchText shows a patch as git wrote it, with lines that were added and removed marked.
func patchText(content string) template.HTML {
	var b strings.Builder
	b.WriteString(`<pre class="patch" tabindex="0">`)
	inDiff := false
	n := 0
	for text := range strings.Lines(content) {
		if n++; n > maxPatchLines {
			b.WriteString("…")
			break
		}
		text = strings.TrimRight(text, "\r\n")
		class := ""
		switch {
		case strings.HasPrefix(text, "diff --git "):
			inDiff, class = true, "file"
		case !inDiff:
		case text == "-- ":
			inDiff = false
		case strings.HasPrefix(text, "@@"):
			class = "hunk"
		case strings.HasPrefix(text, "+++"), strings.HasPrefix(text, "---"):
			class = "file"
		case strings.HasPrefix(text, "+"):
			class = "add"
		case strings.HasPrefix(text, "-"):
			class = "del"
		}
		text = template.HTMLEscapeString(markdown.Show(text))
		if class != "" {
			text = `<span class="` + class + `">` + text + "</span>"
		}
		b.WriteString(text)
		b.WriteByte('\n')
	}
	b.WriteString("</pre>")
	return template.HTML(b.String())
}
