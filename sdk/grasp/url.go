package grasp

import (
	"errors"
	"strconv"
	"strings"

	"talon/sdk/nip19"
)

// maxURL bounds what is read as a URL, in bytes.
const maxURL = 4096

// location is a URL, taken apart.
type location struct {
	scheme string // lower case
	host   string // lower case in ASCII, without the final dot; an IPv6 address has brackets
	port   string // of the scheme where the URL has none
	path   string // as written, percent-encoded
	exact  bool   // there is no query and no fragment
}

// parseURL takes apart a URL whose scheme is one of the four of a GRASP service.
// It refuses what two readers might read differently: user names, back slashes,
// spaces, percent signs in the host.
func parseURL(s string) (u location, ok bool) {
	if len(s) > maxURL {
		return u, false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '\\' || c == 0x7f {
			return u, false
		}
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return u, false
	}
	u.scheme = lowerASCII(scheme)
	port := ""
	switch u.scheme {
	case "http", "ws":
		port = "80"
	case "https", "wss":
		port = "443"
	default:
		return u, false
	}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	if u.host, u.port, ok = parseAuthority(authority); !ok {
		return u, false
	}
	if u.port == "" {
		u.port = port
	}
	u.path, u.exact = tail, true
	if end := strings.IndexAny(tail, "?#"); end >= 0 {
		u.path, u.exact = tail[:end], false
	}
	return u, true
}

// parseAuthority takes apart host:port. The port is "" if there is none.
func parseAuthority(s string) (host, port string, ok bool) {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 3 {
			return "", "", false
		}
		host, port = lowerASCII(s[:end+1]), s[end+1:]
		for i := 1; i < end; i++ {
			if c := host[i]; c != ':' && c != '.' && !isHex(host[i:i+1]) {
				return "", "", false
			}
		}
		if port != "" && port[0] != ':' {
			return "", "", false
		}
		port = strings.TrimPrefix(port, ":")
	} else {
		host, port, _ = strings.Cut(s, ":")
		host = strings.TrimSuffix(lowerASCII(host), ".")
		if host == "" || host[0] == '.' || host[len(host)-1] == '.' || strings.Contains(host, "..") {
			return "", "", false
		}
		for i := range len(host) {
			if !isHostByte(host[i]) {
				return "", "", false
			}
		}
	}
	if port == "" {
		return host, "", true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", "", false
	}
	return host, strconv.FormatUint(n, 10), true
}

// isHostByte allows names as they are written, before IDNA too.
func isHostByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c >= 0x80
}

// Service is a GRASP service: where it is reached from outside. Two of the same
// service are equal.
type Service struct {
	Host string // lower case, an IPv6 address in brackets
	Port string // "" stands for the port of the URL's scheme
}

var errService = errors.New("a service is a domain, with a port where it is not the usual one: relay.example.com or localhost:7777, without scheme and path")

// ParseService parses a domain, such as relay.example.com, localhost:7777 or
// [::1]:7777.
func ParseService(s string) (Service, error) {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f {
			return Service{}, errService
		}
	}
	host, port, ok := parseAuthority(s)
	if !ok || strings.HasSuffix(s, ":") {
		return Service{}, errService
	}
	return Service{host, port}, nil
}

func (s Service) String() string {
	if s.Port == "" {
		return s.Host
	}
	return s.Host + ":" + s.Port
}

// at reports whether u leads to the service.
func (s Service) at(u *location) bool {
	if u.host != s.Host {
		return false
	}
	if s.Port != "" {
		return u.port == s.Port
	}
	if u.scheme == "http" || u.scheme == "ws" {
		return u.port == "80"
	}
	return u.port == "443"
}

// ServesGit reports whether url is an http or https URL of the service.
func (s Service) ServesGit(url string) bool {
	u, ok := parseURL(url)
	return ok && (u.scheme == "http" || u.scheme == "https") && s.at(&u)
}

// IsRelay reports whether url is a ws or wss URL of the service.
func (s Service) IsRelay(url string) bool {
	u, ok := parseURL(url)
	return ok && (u.scheme == "ws" || u.scheme == "wss") && s.at(&u)
}

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
