package markdown

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/microcosm-cc/bluemonday"
	gast "github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"talon/host/web/text"
)

// elements are those that the HTML of a text may have.
var elements = strings.Fields(`a b bdi blockquote br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd li ol p pre s samp
	span strong sub summary sup table tbody td tfoot th thead tr u ul var`)

// sanitizer removes every other element, and every attribute that tidy does not read.
var sanitizer = newSanitizer()

func newSanitizer() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements(elements...)
	p.AllowNoAttrs().OnElements("a", "img")
	p.AllowURLSchemes("http", "https", "nostr", "mailto")
	p.AllowRelativeURLs(true)
	p.AllowAttrs("href").OnElements("a")
	p.AllowAttrs("src", "alt").OnElements("img")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowAttrs("open").OnElements("details")
	p.AllowAttrs("align").Matching(bluemonday.CellAlign).OnElements("td", "th", "p", "div", "h1", "h2", "h3", "h4", "h5", "h6")
	return p
}

// extensionRenderer renders what is not CommonMark.
type extensionRenderer struct{}

func (extensionRenderer) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	extension.NewTableHTMLRenderer(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)).RegisterFuncs(reg)
	extension.NewStrikethroughHTMLRenderer().RegisterFuncs(reg)
	// A box that nobody can tick is a sign, not an input without a label.
	reg.Register(ast.KindTaskCheckBox, func(w util.BufWriter, _ []byte, n gast.Node, entering bool) (gast.WalkStatus, error) {
		sign := "☐ "
		if n.(*ast.TaskCheckBox).IsChecked {
			sign = "☑ "
		}
		if entering {
			_, _ = w.WriteString(sign)
		}
		return gast.WalkContinue, nil
	})
}

// tidy closes every element, and decides about links, images, headings and characters.
func tidy(b *budget, page []byte, o Options) (string, error) {
	nodes, err := html.ParseFragment(bytes.NewReader(page), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		return "", fmt.Errorf("parse HTML: %w", err)
	}
	w := &writer{budget: b, options: o, ids: make(map[string]int), level: max(o.Heading, 1) - 1}
	for _, n := range nodes {
		w.node(n)
	}
	if w.out.Len() > maxOutput {
		return "", errOutput
	}
	return w.out.String(), nil
}

// writer writes the tree of a text as HTML.
type writer struct {
	budget  *budget
	options Options
	out     strings.Builder
	ids     map[string]int // of headings, and how often each was used
	level   int            // of the latest heading
	inLink  bool
	inCode  bool
}

func (w *writer) children(n *html.Node) {
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		w.node(child)
	}
}

func (w *writer) node(n *html.Node) {
	w.budget.charge(8)
	switch n.Type {
	case html.TextNode:
		w.text(n.Data)
	case html.ElementNode:
		w.element(n)
	}
}

func (w *writer) element(n *html.Node) {
	switch n.DataAtom {
	case atom.A:
		w.link(n)
	case atom.Img:
		w.image(n)
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.heading(n)
	case atom.Br, atom.Hr:
		w.out.WriteString("<" + n.Data + ">")
	case atom.Pre:
		// It may be wider than the page: the keyboard scrolls it.
		was := w.inCode
		w.inCode = true
		w.wrap(n, "pre", ` tabindex="0"`)
		w.inCode = was
	case atom.Code, atom.Kbd, atom.Samp, atom.Var:
		was := w.inCode
		w.inCode = true
		w.wrap(n, n.Data, "")
		w.inCode = was
	case atom.Table:
		w.out.WriteString(`<div class="wide" tabindex="0">`)
		w.wrap(n, "table", "")
		w.out.WriteString("</div>")
	case atom.Th:
		if w.textOf(n) == "" {
			w.wrap(n, "td", align(n))
			return
		}
		w.wrap(n, "th", align(n))
	case atom.Td, atom.P, atom.Div:
		w.wrap(n, n.Data, align(n))
	case atom.Ul, atom.Ol:
		w.list(n, "li")
	case atom.Dl:
		w.list(n, "dd", "dt")
	case atom.Li, atom.Dd, atom.Dt, atom.Summary:
		w.children(n) // these without the element around that they need: see list and details
	case atom.Details:
		w.details(n)
	case atom.B, atom.Blockquote, atom.Del, atom.Em, atom.I, atom.Ins, atom.S, atom.Span, atom.Strong, atom.Sub, atom.Sup,
		atom.Tbody, atom.Tfoot, atom.Thead, atom.Tr, atom.U:
		w.wrap(n, n.Data, "")
	default:
		w.children(n)
	}
}

func (w *writer) wrap(n *html.Node, name, attributes string) {
	w.out.WriteString("<" + name + attributes + ">")
	w.children(n)
	w.out.WriteString("</" + name + ">")
}

func align(n *html.Node) string {
	switch strings.ToLower(attribute(n, "align")) {
	case "center":
		return ` class="center"`
	case "right":
		return ` class="right"`
	}
	return ""
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// list writes a list whose children are items of the given names. Other children become items of
// the first.
func (w *writer) list(n *html.Node, items ...string) {
	attributes := ""
	if start := attribute(n, "start"); n.DataAtom == atom.Ol && start != "" && len(start) < 10 {
		attributes = ` start="` + template.HTMLEscapeString(start) + `"`
	}
	w.out.WriteString("<" + n.Data + attributes + ">")
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		name := items[0]
		switch {
		case child.Type == html.TextNode && strings.TrimSpace(child.Data) == "":
			continue
		case child.Type == html.ElementNode && (child.Data == items[0] || child.Data == items[len(items)-1]):
			w.budget.charge(8)
			w.wrap(child, child.Data, "")
			continue
		}
		w.out.WriteString("<" + name + ">")
		w.node(child)
		w.out.WriteString("</" + name + ">")
	}
	w.out.WriteString("</" + n.Data + ">")
}

// details writes a part that opens on demand: its summary first, which it always has.
func (w *writer) details(n *html.Node) {
	open := ""
	for _, a := range n.Attr {
		if a.Key == "open" {
			open = ` open=""`
		}
	}
	w.out.WriteString("<details" + open + "><summary>")
	var summary *html.Node
	for child := n.FirstChild; child != nil && summary == nil; child = child.NextSibling {
		if child.DataAtom == atom.Summary && w.textOf(child) != "" {
			summary = child
		}
	}
	if summary != nil {
		w.children(summary)
	} else {
		w.out.WriteString("Details")
	}
	w.out.WriteString("</summary>")
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		if child != summary {
			w.node(child)
		}
	}
	w.out.WriteString("</details>")
}

// heading writes a heading at a level that fits into the page: below that of the page, and at
// most one below the heading before it.
func (w *writer) heading(n *html.Node) {
	title := w.textOf(n)
	if title == "" && !w.hasImage(n) {
		w.children(n)
		return
	}
	first := max(w.options.Heading, 1)
	level := max(min(int(n.Data[1]-'1')+first, w.level+1, 6), first)
	w.level = level
	attributes := align(n)
	if w.options.Anchors != "" {
		if id := slug(title); id != "" {
			w.ids[id]++
			if n := w.ids[id]; n > 1 {
				id = fmt.Sprintf("%s-%d", id, n-1)
			}
			attributes += ` id="` + template.HTMLEscapeString(w.options.Anchors+id) + `"`
		}
	}
	w.wrap(n, fmt.Sprintf("h%d", level), attributes)
}

func (w *writer) hasImage(n *html.Node) bool {
	w.budget.charge(1)
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		if child.DataAtom == atom.Img || w.hasImage(child) {
			return true
		}
	}
	return false
}

// textOf returns the text of a node.
func (w *writer) textOf(n *html.Node) string {
	var b strings.Builder
	appendText(&b, n)
	w.budget.charge(b.Len() / 8)
	return strings.TrimSpace(b.String())
}

func appendText(b *strings.Builder, n *html.Node) {
	if n.Type == html.TextNode {
		b.WriteString(n.Data)
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		appendText(b, child)
	}
}

// maxSlug bounds the id of a heading.
const maxSlug = 80

// slug returns the id of a heading as other git hosts make it, so that links within a text work.
func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case b.Len() > maxSlug:
			return b.String()
		case r == ' ' || r == '-':
			b.WriteByte('-')
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// rel is what a search engine and the other server should know of a link.
const rel = ` rel="nofollow ugc noopener noreferrer"`

func (w *writer) href(destination string) string {
	if fragment, ok := strings.CutPrefix(destination, "#"); ok {
		if id := slug(fragment); w.options.Anchors != "" && id != "" {
			return "#" + w.options.Anchors + id
		}
		return ""
	}
	if code, ok := strings.CutPrefix(destination, "nostr:"); ok && w.options.Mention != nil && code != "" && codeLength(code) == len(code) {
		_, href := w.options.Mention(code)
		return href
	}
	if w.options.Href == nil {
		return ""
	}
	return w.options.Href(destination)
}

func (w *writer) link(n *html.Node) {
	destination := attribute(n, "href")
	href := ""
	if destination != "" && !w.inLink {
		href = w.href(destination)
	}
	if href == "" {
		w.children(n)
		return
	}
	w.out.WriteString(`<a href="` + template.HTMLEscapeString(href) + `"` + rel + ">")
	w.inLink = true
	before := w.out.Len()
	w.children(n)
	if strings.TrimSpace(w.out.String()[before:]) == "" {
		w.raw(destination)
	}
	w.inLink = false
	w.out.WriteString("</a>")
}

// image writes an image of this server, or a link to one elsewhere: the page must not tell other
// servers who reads it.
func (w *writer) image(n *html.Node) {
	source, alt := attribute(n, "src"), strings.TrimSpace(attribute(n, "alt"))
	if w.options.Image != nil && source != "" {
		if src := w.options.Image(source); src != "" {
			w.out.WriteString(`<img src="` + template.HTMLEscapeString(src) + `" alt="` + template.HTMLEscapeString(Show(alt)) + `" loading="lazy">`)
			return
		}
	}
	if alt == "" {
		alt = "image"
	}
	href := ""
	if source != "" && !w.inLink {
		href = w.href(source)
	}
	if href == "" {
		w.out.WriteString(`<span class="image">`)
		w.raw(alt)
		w.out.WriteString("</span>")
		return
	}
	w.out.WriteString(`<a class="image" href="` + template.HTMLEscapeString(href) + `"` + rel + ">")
	w.raw(alt)
	w.out.WriteString("</a>")
}

// raw writes a text that has no links.
func (w *writer) raw(text string) { w.out.WriteString(template.HTMLEscapeString(Show(text))) }

// text writes a text. URLs and nostr codes in it become links.
func (w *writer) text(s string) {
	w.budget.charge(len(s) / 8)
	if w.inLink || w.inCode {
		w.raw(s)
		return
	}
	for s != "" {
		start, end := findLink(s)
		if start < 0 {
			w.raw(s)
			return
		}
		w.raw(s[:start])
		w.found(s[start:end])
		s = s[end:]
	}
}

// found writes a URL or a nostr code of a text.
func (w *writer) found(s string) {
	label, href := s, ""
	if code, ok := strings.CutPrefix(s, "nostr:"); ok {
		if w.options.Mention != nil {
			label, href = w.options.Mention(code)
		}
	} else if w.options.Href != nil {
		href = w.options.Href(s)
	}
	if href == "" {
		w.raw(label)
		return
	}
	w.out.WriteString(`<a href="` + template.HTMLEscapeString(href) + `"` + rel + "><bdi>")
	w.raw(label)
	w.out.WriteString("</bdi></a>")
}

// findLink returns where the first URL or nostr code of a text is, -1 if there is none.
func findLink(s string) (start, end int) {
	for at := 0; at < len(s); {
		next := strings.IndexByte(s[at:], ':')
		if next < 0 {
			return -1, 0
		}
		colon := at + next
		at = colon + 1
		for _, scheme := range [...]string{"https", "http", "nostr"} {
			start := colon - len(scheme)
			if start < 0 || s[start:colon] != scheme || !boundary(s[:start]) {
				continue
			}
			rest := s[colon+1:]
			if scheme == "nostr" {
				if n := codeLength(rest); n > 0 {
					return start, colon + 1 + n
				}
			} else if strings.HasPrefix(rest, "//") {
				if n := urlLength(rest); n > len("//") {
					return start, colon + 1 + n
				}
			}
			break
		}
	}
	return -1, 0
}

// boundary reports whether a URL may begin behind s.
func boundary(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return s == "" || !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// urlLength returns how many bytes at the start of s belong to a URL. Punctuation at its end
// belongs to the sentence around it, and so does a bracket that the URL does not open.
func urlLength(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r == '<' || r == '>' || r == '"' || r == '`' || r == 0x7f || unicode.IsSpace(r) || text.Invisible(r)
	})
	if n < 0 {
		n = len(s)
	}
	round := strings.Count(s[:n], ")") - strings.Count(s[:n], "(")
	square := strings.Count(s[:n], "]") - strings.Count(s[:n], "[")
	for ; n > 0; n-- {
		switch s[n-1] {
		case '.', ',', ';', ':', '!', '?', '\'', '*', '_', '~':
		case ')':
			if round--; round < 0 {
				return n
			}
		case ']':
			if square--; square < 0 {
				return n
			}
		default:
			return n
		}
	}
	return n
}
