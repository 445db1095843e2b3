package gitfetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"talon/host/gitfetch/queue"
	"talon/host/netguard"
	"talon/sdk/grasp"
)

// maxURL bounds a clone URL, in bytes.
const maxURL = 2048

// ErrOurs says that a URL leads to this service.
var ErrOurs = errors.New("it is a URL of this service")

// Addresses restricts the servers that the hunt may contact.
type Addresses struct {
	Own     []grasp.Service // names of this service, which is never asked
	Private bool            // addresses that are not of the public internet are allowed
}

// ParseURL reads a clone URL of an event. It refuses what is not a plain http or
// https URL, what two programs might read differently, and what leads to this service
// or, as far as the text says, to a private address. The result has one form for all
// ways of writing the same.
func (a Addresses) ParseURL(text string) (queue.URL, error) {
	if len(text) > maxURL {
		return queue.URL{}, fmt.Errorf("the URL is longer than %d bytes", maxURL)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' || c == '`' {
			return queue.URL{}, errors.New("the URL has a space, a control character, or one that a URL must encode")
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		return queue.URL{}, errors.New("the URL cannot be parsed")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return queue.URL{}, fmt.Errorf("the scheme %.20q is not http or https", u.Scheme)
	case u.User != nil:
		return queue.URL{}, errors.New("the URL has a user name or password")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return queue.URL{}, errors.New("the URL has a query or a fragment")
	case u.Opaque != "" || u.Host == "":
		return queue.URL{}, errors.New("the URL has no host")
	}
	domain, err := a.domain(u)
	if err != nil {
		return queue.URL{}, err
	}
	u.Host = domain
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			return queue.URL{}, errors.New("the path has a part of dots only")
		}
	}
	if slices.ContainsFunc(a.Own, func(own grasp.Service) bool { return own.ServesGit(u.String()) }) {
		return queue.URL{}, ErrOurs
	}
	return queue.URL{Text: u.String(), Domain: domain}, nil
}

// domain returns the host's name in lower case, with the port if it is not that of
// the scheme.
func (a Addresses) domain(u *url.URL) (string, error) {
	name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	port := u.Port()
	if strings.HasSuffix(u.Host, ":") {
		return "", errors.New("the URL has an empty port")
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || n < 1024 && n != 80 && n != 443 {
			return "", fmt.Errorf("port %.8q is not 80, 443, or one from 1024 on", port)
		}
		port = strconv.FormatUint(n, 10)
		if u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
			port = ""
		}
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Zone() != "" {
			return "", errors.New("the address has a zone")
		}
		if !a.Private && !netguard.Public(addr) {
			return "", fmt.Errorf("%s is not a public address", addr)
		}
		name = addr.Unmap().String()
	} else if err := checkName(name); err != nil {
		return "", err
	} else if !a.Private && isPrivateName(name) {
		return "", fmt.Errorf("%.80q is not a public name", name)
	}
	if port != "" {
		return net.JoinHostPort(name, port), nil
	}
	if strings.Contains(name, ":") {
		return "[" + name + "]", nil
	}
	return name, nil
}

// checkName refuses names that are not those of hosts, and addresses in the old ways
// of writing (0x7f.1, 2130706433), which some resolvers take.
func checkName(name string) error {
	if name == "" || len(name) > 253 {
		return errors.New("the host's name is empty or too long")
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("%.80q is not the name of a host", name)
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return fmt.Errorf("%.80q is not the name of a host; names beyond ASCII are written in punycode", name)
			}
		}
		last = label
	}
	if last[0] >= '0' && last[0] <= '9' {
		return fmt.Errorf("%.80q is neither a name nor an address", name)
	}
	return nil
}

// isPrivateName reports whether a name is never one of the public internet.
func isPrivateName(name string) bool {
	if !strings.Contains(name, ".") {
		return true
	}
	for _, suffix := range []string{".localhost", ".local", ".internal", ".lan", ".home.arpa", ".test", ".invalid", ".onion"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// Errors of the guard.
var (
	errPrivate = errors.New("the name leads to an address that is not public")
	errCrowded = errors.New("too many connections to one address")
)

const (
	dialTime     = 10 * time.Second
	maxAddresses = 4 // of a name that are tried
)

// guard connects to public addresses only.
type guard struct {
	private bool
	max     int // connections to one address, under whatever names
	lookup  func(ctx context.Context, name string) ([]netip.Addr, error)
	dialer  net.Dialer

	mu   sync.Mutex // guards open
	open map[netip.Addr]int
}

func newGuard(private bool, limit int) *guard {
	return &guard{
		private: private, max: limit, open: make(map[netip.Addr]int),
		lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		},
		dialer: net.Dialer{KeepAlive: 15 * time.Second},
	}
}

// dial connects to host:port. The name is looked up here, and what is connected to is
// the address that was checked.
func (g *guard) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	return g.dialAs(ctx, network, hostPort, nil)
}

// charging returns dial with a charge for each address that is connected to. If that returns an
// error, the address is not connected to.
func (g *guard) charging(charge func(to netip.Addr) error) func(ctx context.Context, network, hostPort string) (net.Conn, error) {
	return func(ctx context.Context, network, hostPort string) (net.Conn, error) {
		return g.dialAs(ctx, network, hostPort, charge)
	}
}

func (g *guard) dialAs(ctx context.Context, network, hostPort string, charge func(to netip.Addr) error) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	name, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if addr, err := netip.ParseAddr(name); err == nil {
		addrs = []netip.Addr{addr}
	} else if addrs, err = g.lookup(ctx, name); err != nil {
		return nil, err
	}
	var allowed []netip.Addr
	for _, addr := range addrs {
		if addr = addr.Unmap(); (g.private || netguard.Public(addr)) && addr.Zone() == "" {
			allowed = append(allowed, addr)
		}
	}
	allowed = allowed[:min(len(allowed), maxAddresses)]
	deadline, _ := ctx.Deadline()
	failed := error(errPrivate)
	for i, addr := range allowed {
		// One that does not answer leaves time for the others.
		share := time.Until(deadline) / time.Duration(len(allowed)-i)
		if charge != nil {
			if err := charge(addr); err != nil {
				failed = err
				continue
			}
		}
		conn, err := g.connect(ctx, network, addr, port, share)
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, failed
}

func (g *guard) connect(ctx context.Context, network string, addr netip.Addr, port string, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	g.mu.Lock()
	if g.open[addr] >= g.max {
		g.mu.Unlock()
		return nil, fmt.Errorf("%w: %s", errCrowded, addr)
	}
	g.open[addr]++
	g.mu.Unlock()
	release := sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.open[addr]--; g.open[addr] == 0 {
			delete(g.open, addr)
		}
	})
	conn, err := g.dialer.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
	if err != nil {
		release()
		return nil, err
	}
	return &guarded{conn, release}, nil
}

// guarded is a connection that counts until it is closed.
type guarded struct {
	net.Conn
	release func()
}

func (c *guarded) Close() error {
	c.release()
	return c.Conn.Close()
}
