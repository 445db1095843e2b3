package grasp

import (
	"errors"
	"strconv"
	"strings"
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
