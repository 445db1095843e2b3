package web

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"
)

// fromProgram reports whether a request with a body comes from a program: its type is none of a
// form in a page.
func fromProgram(r *http.Request) bool {
	switch kind := mediaType(r); kind {
	case "", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain":
		return strings.Contains(strings.ToLower(r.Header.Get("Accept")), "json")
	}
	return true
}

func mediaType(r *http.Request) string {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// answerProgram refuses a request of a program that no other handler has taken, in a type that
// the program reads: JSON with the members that NIP-86 (error) and git's LFS (message) have, or
// plain text.
func (h *Handler) answerProgram(w http.ResponseWriter, r *http.Request) {
	const text = "There is nothing here that takes this request."
	kind, body := "text/plain; charset=utf-8", []byte(text+"\n")
	if own := mediaType(r); strings.HasSuffix(own, "json") || strings.HasSuffix(own, "json+rpc") {
		kind = own
	} else if strings.Contains(strings.ToLower(r.Header.Get("Accept")), "json") {
		kind = "application/json"
	}
	if strings.Contains(kind, "json") {
		encoded, err := json.Marshal(map[string]string{"error": text, "message": text})
		if err == nil {
			body = encoded
		}
	}
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	if _, err := w.Write(body); err != nil {
		h.cfg.Log.Debug("answer a program", "err", err)
	}
}
