package web

import (
	"html/template"
	"net/http"
	"strings"

	"talon/sdk/grasp"
)

// goImport answers the go command: which repository has the packages below a path.
var goImport = template.Must(template.New("go-import").Parse(`<!DOCTYPE html>
<html><head><meta charset="utf-8"><meta name="go-import" content="{{.Prefix}} git {{.Clone}}"></head>
<body>go get {{.Prefix}}</body></html>
`))

// serveGoGet answers a request of the go command (?go-get=1), and reports whether it was one. It
// reads nothing: whether the repository is here, git says.
func (h *Handler) serveGoGet(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet || r.URL.Query().Get("go-get") != "1" {
		return false
	}
	repo, ok := goRepository(r.URL.EscapedPath())
	if !ok {
		return false
	}
	clone := h.urls(r).of(repo).Clone
	_, prefix, _ := strings.Cut(strings.TrimSuffix(clone, ".git"), "://")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = goImport.Execute(w, struct{ Prefix, Clone string }{prefix, clone})
	return true
}

// goRepository returns the repository whose packages are below a path, which has no .git. The path
// of a package has no character that must be escaped.
func goRepository(escaped string) (grasp.Repo, bool) {
	npub, rest, ok := strings.Cut(strings.TrimPrefix(escaped, "/"), "/")
	if !ok || strings.Contains(escaped, "%") {
		return grasp.Repo{}, false
	}
	identifier, _, _ := strings.Cut(rest, "/")
	p, err := grasp.ParsePath("/" + npub + "/" + identifier + ".git")
	return p.Repo, err == nil && !strings.HasSuffix(identifier, ".git")
}
