package web

import (
	"net/http"
	"strings"
	"testing"
)

// The go command learns the repository of a package from its path, and nothing is read for it.
func TestGoGet(t *testing.T) {
	w := newWorld(t)
	base := "git.example.com/" + npub("owl")
	for path, want := range map[string]string{
		"/" + npub("owl") + "/nest?go-get=1":           base + "/nest git https://" + base + "/nest.git",
		"/" + npub("owl") + "/nest/eggs/blue?go-get=1": base + "/nest git https://" + base + "/nest.git",
		"/" + npub("owl") + "/nest":                    "",
		"/" + npub("owl") + "/nest.git?go-get=1":       "", // the go command needs no answer for it
		"/" + npub("owl") + "/ne%22%3E%20st?go-get=1":  "",
		"/" + npub("owl") + "/..?go-get=1":             "",
		"/npub1x/nest?go-get=1":                        "",
		"/" + npub("owl") + "?go-get=1":                "",
		"/?go-get=1":                                   "",
	} {
		d := w.get(path)
		got := ""
		for _, e := range d.elements {
			if e.name == "meta" && e.attr["name"] == "go-import" {
				got = e.attr["content"]
			}
		}
		if got != want {
			t.Errorf("%s: %d %q, want %q", path, d.Code, got, want)
		}
		if want != "" && (d.Code != http.StatusOK || !strings.HasPrefix(d.Header().Get("Content-Type"), "text/html")) {
			t.Errorf("%s: %d, %v", path, d.Code, d.Header())
		}
	}
	if d := w.request(http.MethodPost, "/"+npub("owl")+"/nest?go-get=1"); d.Code != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %d", d.Code)
	}
}
