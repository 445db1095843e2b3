package web

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"talon/host"
	"talon/host/web/code"
	"talon/host/web/text"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// Bounds of the text that a page shows, in characters.
const (
	maxName    = text.MaxName
	maxTitle   = 140
	maxSummary = 240
	maxText    = 2000
	maxShown   = 100 // of a URL
)

// maxLink bounds what may become a link, in bytes.
const maxLink = 2048

// line returns a text of a stranger on one line, of at most the given number of characters.
func line(s string, limit int) string { return text.Line(s, limit) }

// lines is line for texts whose lines count.
func lines(s string, limit int) string { return text.Lines(s, limit) }

func invisible(r rune) bool { return text.Invisible(r) }

func hasLook(s string) bool { return text.HasLook(s) }

// identifier returns an identifier as a page shows it. The result is always visible.
func identifier(s string) string { return text.Identifier(s) }

func orElse(s, other string) string { return text.OrElse(s, other) }

// link is a URL that a stranger wrote.
type link struct {
	Href template.URL // "" if it must not be followed
	Text string
}

// linkTo makes a link of an http, https or nostr URL, and leaves everything else a
// text. A user name in a URL makes it look as if it led elsewhere.
func linkTo(s string) link {
	l := link{Text: line(s, maxShown)}
	if len(s) > maxLink || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
		return r == '\\' || unicode.IsSpace(r) || unicode.IsControl(r) || invisible(r)
	}) {
		return l
	}
	u, err := url.Parse(s)
	if err != nil {
		return l
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host != "" && u.User == nil && u.Opaque == "" {
			l.Href = template.URL(u.String())
		}
	case "nostr":
		if code := strings.ToLower(u.Opaque); isCode(code) && u.RawQuery == "" && u.Fragment == "" {
			l.Href = template.URL("nostr:" + code)
		}
	}
	return l
}

// isCode reports whether s may be bech32 (NIP-19).
func isCode(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// moment is a time for the eye and for machines.
type moment = text.Moment

func at(seconds int64) moment { return text.At(seconds) }

func shortID(object string) string { return text.ShortID(object) }

// shortKey is an npub for the eye.
func shortKey(npub string) string {
	if len(npub) < 24 {
		return npub
	}
	return npub[:12] + "…" + npub[len(npub)-6:]
}

// number writes a count that was not counted to its end.
func number(n int, more bool) string {
	if more {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

// argument writes an identifier as an argument of a shell, "" if that could look like
// something else than it is.
func argument(identifier string) string {
	plain := true
	for _, r := range identifier {
		if !unicode.IsPrint(r) && r != ' ' {
			return ""
		}
		plain = plain && r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-._", r))
	}
	if plain {
		return identifier
	}
	return "'" + strings.ReplaceAll(identifier, "'", `'\''`) + "'"
}

// npubOf is the first part of a repository's path.
func npubOf(r grasp.Repo) string {
	npub, _, _ := strings.Cut(r.Path()[1:], "/")
	return npub
}

//go:embed templates/*.html templates/style.css
var files embed.FS

var (
	style = template.CSS(mustRead("templates/style.css") + code.Style())

	// policy lets a page have its own style sheet and its own icon, and nothing else.
	policy = "default-src 'none'; style-src 'sha256-" + hash(string(style)) + "'; img-src 'self' data:; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

	// codePolicy also lets a page of code show media of its repository.
	codePolicy = strings.Replace(policy, "img-src ", "media-src 'self'; img-src ", 1)
)

// parseTemplates parses the templates of all pages.
func parseTemplates() *template.Template {
	all := template.Must(template.ParseFS(files, "templates/*.html")) // they are part of the program
	return template.Must(all.ParseFS(code.Templates, "templates/*.html"))
}

// mustRead reads a file that is part of the program.
func mustRead(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// frame is what the template of a page is given.
type frame struct {
	Site    string // the service
	Style   template.CSS
	Content any
}

// message is a page that says why there is no other.
type message struct {
	Title string
	Text  string
	Do    string
}

var (
	notFound = message{
		"Not here",
		"There is no page and no repository under this address.",
		"Check the address: that of a repository is /npub…/identifier.git. If the repository is yours, announce it with this service among its clone and relays tags.",
	}
	notAllowed = message{
		"Not like this",
		"This page can be read, and nothing else.",
		"Open the address in a browser, or give it to git.",
	}
	busy = message{
		"Busy",
		"Too many others are being served.",
		"Try again in a moment.",
	}
	away = message{
		"The database is away",
		"The server's database cannot be reached now.",
		"Try again in a moment.",
	}
	failed = message{
		"The server failed",
		"The page could not be made. The log of the server says why.",
		"Try again later. If it stays like this, tell the operator.",
	}
)

// person is an author as pages show one. Anybody may take any name, so a page always shows the
// key next to it.
type person struct {
	Name string // "" if none is known
	Npub string
}

func (p person) Short() string { return shortKey(p.Npub) }

// Link returns the page of the person.
func (p person) Link() template.URL { return template.URL("/" + p.Npub) }

// maxNames bounds how many names are looked up for a page.
const maxNames = 6 * chunk

// profiles looks up the names of authors (kind 0). The keys may repeat.
func (r reader) profiles(ctx context.Context, keys []host.PubKey) (map[host.PubKey]person, error) {
	all := make(map[host.PubKey]person, len(keys))
	var ask []host.PubKey
	for _, key := range keys {
		if _, ok := all[key]; !ok {
			all[key] = person{Npub: nip19.EncodeNpub(key)}
			ask = append(ask, key)
		}
	}
	if len(ask) == 0 {
		return all, nil
	}
	ask = ask[:min(len(ask), maxNames)]
	f := host.Filter{Kinds: []host.Kind{0}, Authors: ask}
	_, err := r.each(ctx, f, len(ask), func(e *host.Event) bool {
		p := all[e.PubKey]
		p.Name = nameOf(e.Content)
		all[e.PubKey] = p
		return true
	})
	return all, err
}

// nameOf returns the name in the content of a kind 0, "" if there is none to show.
func nameOf(content string) string {
	var profile map[string]json.RawMessage
	if json.Unmarshal([]byte(content), &profile) != nil {
		return ""
	}
	for _, field := range [...]string{"display_name", "name"} {
		var name string
		if json.Unmarshal(profile[field], &name) != nil {
			continue
		}
		if name = line(name, 40); hasLook(name) {
			return strings.Clone(name)
		}
	}
	return ""
}
