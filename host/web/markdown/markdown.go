// Package markdown turns Markdown by strangers into HTML that is safe within a page.
//
// It knows CommonMark with tables, strikethrough and lists of tasks, and a short list of HTML
// elements. Package goldmark parses, bluemonday removes HTML that is not on the list, and a
// walk over the tree decides about links, images and characters.
//
// Invariants:
//
//  1. The HTML has only the elements and attributes of [elements], and every element is
//     closed. It runs nothing, and loads nothing but images that [Options.Image] allows.
//  2. A link leads only to a URL that [Options.Href] or [Options.Mention] returned.
//  3. Characters without a look of their own are shown as their number.
//  4. No text takes longer than a fixed number of steps. A text that is too large, too deep
//     or too slow is shown as it was written.
package markdown

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	// MaxBytes bounds a text that is parsed.
	MaxBytes = 64 << 10

	// maxOutput bounds the HTML of one text: a reference can be used many times.
	maxOutput = 1 << 20

	// maxTime bounds the time of one text. The steps of a text end long before, unless the
	// machine is slow.
	maxTime = time.Second
)

// Options say how the page around the text treats it. The zero value makes no links.
type Options struct {
	// Href returns the URL to which a link with this destination leads, "" if it stays a text.
	// The destination is as the author wrote it, absolute or relative.
	Href func(destination string) string

	// Image returns the URL of an image that the page may load, "" if the page has a link to
	// it instead.
	Image func(destination string) string

	// Mention returns a label and a URL for a NIP-19 code that stands after nostr:, without a
	// URL if it stays a text.
	Mention func(code string) (label, href string)

	// Heading is the level of the headings that the text calls the first, 1 to 6.
	Heading int

	// Steps are those that are left for all texts of a page. Texts are shown as they were written
	// when there are none. Nil: each text has its own bound only.
	Steps *int

	// Anchors is a prefix for the ids of headings. Without one, headings have no ids, and links
	// within the text are texts.
	Anchors string
}

// Render returns the HTML of a text. It returns the text as it is, in a pre element, if it is
// too large or too complex to parse.
func Render(ctx context.Context, source string, o Options) template.HTML {
	if page, err := render(ctx, source, o); err == nil {
		return template.HTML(page)
	}
	return Plain(source)
}

// Plain returns a text as it was written, in a pre element. It leaves out what follows the first
// MaxBytes.
func Plain(source string) template.HTML {
	cut := ""
	if len(source) > MaxBytes {
		source, cut = source[:MaxBytes], "…"
	}
	return template.HTML(`<pre class="plain" tabindex="0">` + template.HTMLEscapeString(Show(strings.ToValidUTF8(source, ""))+cut) + "</pre>")
}

var (
	errSize    = errors.New("the text is too large")
	errOutput  = errors.New("the HTML of the text is too large")
	errComplex = errors.New("the text is too complex")
)

func render(ctx context.Context, source string, o Options) (page string, err error) {
	if len(source) > MaxBytes {
		return "", errSize
	}
	// A fault of a parser must not end the program; the budget ends a parse in this way too.
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			page, err = "", r
		default:
			page, err = "", fmt.Errorf("%v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	src := []byte(strings.ToValidUTF8(source, "\ufffd"))
	b := &budget{ctx: ctx, left: maxSteps}
	if o.Steps != nil {
		b.left = min(b.left, *o.Steps)
		had := b.left
		defer func() { *o.Steps -= had - max(b.left, 0) }()
	}
	pc := parser.NewContext()
	pc.Set(budgetKey, b)
	document := converter.Parser().Parse(text.NewReader(src), parser.WithContext(pc))
	if tooDeep(document) {
		return "", errComplex
	}
	out := &limited{left: maxOutput}
	if err := converter.Renderer().Render(out, src, document); err != nil {
		return "", err
	}
	return tidy(b, sanitizer.SanitizeBytes(out.Bytes()), o)
}

// converter is safe for concurrent use. The HTML that it lets through goes to the sanitizer.
var converter = goldmark.New(
	goldmark.WithParser(newParser()),
	goldmark.WithRenderer(renderer.NewRenderer(renderer.WithNodeRenderers(
		util.Prioritized(html.NewRenderer(html.WithUnsafe()), 1000),
		util.Prioritized(extensionRenderer{}, 500),
	))),
)

// limited is a buffer with a bound.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errOutput
	}
	return l.Buffer.Write(p)
}
