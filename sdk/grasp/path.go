package grasp

import (
	"errors"
	"strings"

	"talon/sdk/nip19"
)

// Repo names a repository: whose it is, and the identifier that it is announced
// by.
type Repo struct {
	PubKey     PubKey
	Identifier string
}

// Address returns the address of the announcement, 30617:pubkey:identifier.
func (r Repo) Address() string {
	b := append(make([]byte, 0, 6+64+1+len(r.Identifier)), "30617:"...)
	b = appendHex(b, r.PubKey[:])
	return string(append(append(b, ':'), r.Identifier...))
}

// Path returns the path of the repository's URL, /<npub>/<identifier>.git, with
// percent signs where a URL needs them. [ParsePath] is its inverse.
func (r Repo) Path() string {
	b := append(make([]byte, 0, 69+3*len(r.Identifier)), '/')
	b = append(append(b, nip19.EncodeNpub(r.PubKey)...), '/')
	for i := range len(r.Identifier) {
		if c := r.Identifier[i]; plainByte(c) || c == '~' {
			b = append(b, c)
		} else {
			const digits = "0123456789ABCDEF"
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(append(b, ".git"...))
}

// Path is the path of a repository's URL, taken apart.
type Path struct {
	Repo
	PRs  bool   // it starts with /prs/ (GRASP-06)
	Rest string // what follows .git/, as in the URL: "", info/refs, git-upload-pack, …
}

var (
	errPathShape  = errors.New("the path of a repository is /<npub>/<identifier>.git")
	errPathNpub   = errors.New("the path of a repository starts with an npub, in lower case and with a right checksum")
	errPathEscape = errors.New("the path has a % that is not followed by two hex digits")
	errPathRest   = errors.New("what follows .git in the path is not a part of a repository")
)

// ParsePath takes apart the path of a request, as it was sent, with its percent
// signs (EscapedPath of a URL of net/url). The identifier is decoded once, and
// then checked. Rest is not decoded: it is to be compared, never opened.
func ParsePath(path string) (p Path, err error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return Path{}, errPathShape
	}
	if prs, ok := strings.CutPrefix(rest, "prs/"); ok {
		p.PRs, rest = true, prs
	}
	npub, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return Path{}, errPathShape
	}
	if !strings.HasPrefix(npub, "npub1") {
		return Path{}, errPathNpub
	}
	if p.PubKey, err = nip19.DecodeNpub(npub); err != nil {
		return Path{}, errPathNpub
	}
	segment, rest, more := strings.Cut(rest, "/")
	segment, ok = unescape(segment)
	if !ok {
		return Path{}, errPathEscape
	}
	if p.Identifier, ok = strings.CutSuffix(segment, ".git"); !ok {
		return Path{}, errPathShape
	}
	if err := CheckIdentifier(p.Identifier); err != nil {
		return Path{}, err
	}
	if more && rest != "" && !plainPath(rest) {
		return Path{}, errPathRest
	}
	p.Rest = rest
	return p, nil
}

// plainPath reports whether every segment of a path is made of the characters
// that git uses in its own paths, and leads downward.
func plainPath(path string) bool {
	for path != "" {
		var segment string
		segment, path, _ = strings.Cut(path, "/")
		if segment == "" || segment[0] == '.' {
			return false
		}
		for i := range len(segment) {
			if !plainByte(segment[i]) {
				return false
			}
		}
	}
	return true
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'
}

// unescape decodes percent signs once.
func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		digits := lowerASCII(s[i+1 : i+3])
		if !isHex(digits) {
			return "", false
		}
		b = append(b, nibble(digits[0])<<4|nibble(digits[1]))
		i += 2
	}
	return string(b), true
}
