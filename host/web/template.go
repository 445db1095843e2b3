package web

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
)

//go:embed templates/*.html templates/style.css
var files embed.FS

var (
	templates = template.Must(template.ParseFS(files, "templates/*.html"))
	style     = template.CSS(mustRead("templates/style.css"))

	// policy lets a page have its own style sheet and its own icon, and nothing else.
	policy = "default-src 'none'; style-src 'sha256-" + hash(string(style)) + "'; img-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

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
	failed = message{
		"The server failed",
		"The page could not be made. The log of the server says why.",
		"Try again later. If it stays like this, tell the operator.",
	}
)
