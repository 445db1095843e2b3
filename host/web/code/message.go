package code

import (
	"html/template"
	"regexp"
	"strings"
)

// maxLinks bounds the links of a message.
const maxLinks = 50

// destinations are what becomes a link in a plain text.
var destinations = regexp.MustCompile(`\b(?:nostr:[a-z0-9]+|https?://[^\s<>"]+)`)

// linked returns the HTML of a plain text, in which URLs and nostr: codes are links.
func (q *Request) linked(message string) (template.HTML, error) {
	places := destinations.FindAllStringIndex(message, maxLinks)
	mention := q.Mention
	if q.Mentions != nil && strings.Contains(message, "nostr:") {
		var err error
		if mention, err = q.Mentions(q.HTTP.Context(), message); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	at := 0
	for _, place := range places {
		name := strings.TrimRight(message[place[0]:place[1]], ".,;:!?)]}'")
		label, href := name, ""
		if code, isCode := strings.CutPrefix(name, "nostr:"); isCode && mention != nil {
			label, href = mention(code)
		} else if !isCode && q.Href != nil {
			href = q.Href(name)
		}
		if href == "" {
			continue
		}
		b.WriteString(template.HTMLEscapeString(message[at:place[0]]))
		b.WriteString(`<a rel="nofollow ugc noopener noreferrer" href="` + template.HTMLEscapeString(href) + `">` + template.HTMLEscapeString(label) + "</a>")
		at = place[0] + len(name)
	}
	b.WriteString(template.HTMLEscapeString(message[at:]))
	return template.HTML(b.String()), nil
}
