package githttp

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// endpoint is what a URL below a repository means.
type endpoint uint8

const (
	infoRefs endpoint = iota
	uploadPack
	receivePack
)

// maxParts bounds the depth of a path.
const maxParts = 32

// split finds the repository and the endpoint in the path of a request. It reports
// false if the path is none of git's smart protocol.
func split(prefix, escaped string) (parts []string, end endpoint, ok bool) {
	rest, ok := strings.CutPrefix(escaped, prefix)
	if !ok {
		return nil, 0, false
	}
	switch {
	case strings.HasSuffix(rest, "/info/refs"):
		rest, end = strings.TrimSuffix(rest, "/info/refs"), infoRefs
	case strings.HasSuffix(rest, "/git-upload-pack"):
		rest, end = strings.TrimSuffix(rest, "/git-upload-pack"), uploadPack
	case strings.HasSuffix(rest, "/git-receive-pack"):
		rest, end = strings.TrimSuffix(rest, "/git-receive-pack"), receivePack
	default:
		return nil, 0, false
	}
	parts, ok = Decode(rest)
	return parts, end, ok
}

// Decode splits a path that is still percent-encoded, without a slash at its start,
// and decodes its parts. It reports false if one of them, decoded, is empty, is . or
// .., is not UTF-8, or has a slash, a backslash or a control character.
func Decode(escaped string) (parts []string, ok bool) {
	if strings.Count(escaped, "/") >= maxParts {
		return nil, false
	}
	for part := range strings.SplitSeq(escaped, "/") {
		part, err := url.PathUnescape(part)
		if err != nil || part == "" || part == "." || part == ".." || !utf8.ValidString(part) ||
			strings.ContainsAny(part, `/\`) || strings.ContainsFunc(part, unicode.IsControl) {
			return nil, false
		}
		parts = append(parts, part)
	}
	return parts, true
}

// IsGit reports whether a request is for git and not for a page: it asks for one of
// git's endpoints somewhere below a prefix. A server that has pages as well asks it
// first.
func IsGit(prefix string, r *http.Request) bool {
	_, _, ok := split(prefix, r.URL.EscapedPath())
	return ok
}

// CORS sets the headers that let any web page use what is answered (GRASP-01).
func CORS(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, POST, HEAD, OPTIONS")
	h.Set("Access-Control-Allow-Headers",
		"Content-Type, Authorization, Git-Protocol, Accept, Content-Encoding, X-Requested-With")
	h.Set("Access-Control-Expose-Headers", "Retry-After")
	h.Set("Access-Control-Max-Age", "86400") // preflights, in which all of this is as long as Talon is
}
