package grasp

import (
	"errors"
	"strconv"
	"strings"

	"talon/sdk/nip19"
)

// maxURL bounds the length of a URL in bytes.
const maxURL = 4096

// Loops over the bytes of a URL are functions of their own: a guest pays, each time
// around, for all the code that is behind the loop (host/plugin/meter).

// odd are the bytes that readers of URLs treat differently.
var odd = func() (t [256]bool) {
	for c := range t {
		t[c] = c <= ' ' || c == '\\' || c == 0x7f
	}
	return t
}()

// hasUnsafeRunes reports whether s has such a byte.
//
//go:noinline
func hasUnsafeRunes(s string) (found bool) {
	for i := range len(s) {
		found = found || odd[s[i]]
	}
	return found
}

// sameHost reports whether two names of one length are equal, without regard to the case of ASCII
// letters. The second has no capital ones.
//
//go:noinline
func sameHost(s, lower string) bool {
	for i := range len(s) {
		if c := s[i]; c != lower[i] && (c < 'A' || c > 'Z' || c|0x20 != lower[i]) {
			return false
		}
	}
	return true
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
		host = s
		if colon := strings.IndexByte(s, ':'); colon >= 0 {
			host, port = s[:colon], s[colon+1:]
		}
		if host = strings.TrimSuffix(lowerASCII(host), "."); !isHost(host) {
			return "", "", false
		}
	}
	if port == "" {
		return host, "", true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return host, strconv.FormatUint(n, 10), err == nil && n > 0
}

// isHost reports whether s is a name of parts that are not empty.
//
//go:noinline
func isHost(s string) bool {
	last := byte('.')
	for i := range len(s) {
		c := s[i]
		if !isHostByte(c) || c == '.' && last == '.' {
			return false
		}
		last = c
	}
	return last != '.'
}

// isHostByte allows the bytes of names, also before IDNA encoding.
func isHostByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c >= 0x80
}

// before returns the part before the first c, or all.
func before(s string, c byte) string {
	if i := strings.IndexByte(s, c); i >= 0 {
		return s[:i]
	}
	return s
}

// Service is the outside address of a GRASP service. Two values of the same service are equal.
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

// locate takes apart a URL of the service, and returns its path as written, percent-encoded. The
// scheme of the URL is scheme, or scheme with an s. exact is true for a URL without query and
// fragment. locate refuses user names, backslashes and spaces, which two parsers may read
// differently.
func (s Service) locate(url, scheme string) (path string, exact, ok bool) {
	colon := strings.IndexByte(url, ':')
	if colon < 0 || len(url) > maxURL || !strings.HasPrefix(url[colon:], "://") {
		return "", false, false
	}
	port := ""
	switch secure, ok := strings.CutPrefix(lowerASCII(url[:colon]), scheme); {
	case ok && secure == "":
		port = "80"
	case ok && secure == "s":
		port = "443"
	default:
		return "", false, false
	}
	rest := url[colon+len("://"):]
	authority := before(before(before(rest, '/'), '?'), '#')
	rest = rest[len(authority):]
	if !s.at(authority, port) || hasUnsafeRunes(rest) {
		return "", false, false
	}
	path = before(before(rest, '?'), '#')
	return path, len(path) == len(rest), true
}

// at reports whether an authority is the service's. The usual port is that of the scheme.
func (s Service) at(authority, usual string) bool {
	port, n := usual, len(s.Host)
	if n == 0 || len(authority) < n || !sameHost(authority[:n], s.Host) {
		return false
	}
	if len(authority) > n { // another host, or a port
		host, own, ok := parseAuthority(authority)
		if !ok || host != s.Host {
			return false
		}
		if own != "" {
			port = own
		}
	}
	return port == s.Port || s.Port == "" && port == usual
}

// ServesGit reports whether url is an http or https URL of the service.
func (s Service) ServesGit(url string) bool {
	_, _, ok := s.locate(url, "http")
	return ok
}

// IsRelay reports whether url is a ws or wss URL of the service.
func (s Service) IsRelay(url string) bool {
	_, _, ok := s.locate(url, "ws")
	return ok
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

// npubPath is the length of /<npub>/.
const npubPath = 1 + 63 + 1

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

// ParsePath takes apart the path of a request in its encoded form (EscapedPath of a URL of
// net/url). It decodes the identifier once, and then checks it. It does not decode Rest: compare
// it, and never open it as a file.
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
