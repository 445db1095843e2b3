package gitfetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"talon/host/gitfetch/queue"
	"talon/host/gitrepo"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// always answers every request in the same way.
func always(t *testing.T, f func(w http.ResponseWriter, r *http.Request)) string {
	s := httptest.NewServer(http.HandlerFunc(f))
	t.Cleanup(s.Close)
	return s.URL + "/x.git"
}

func status(code int, headers ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}

// advertise answers a request for refs as a server of version 2 does, and leaves the
// rest to f.
func advertise(f func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", refsType)
			_, _ = io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+pkt("version 2\n")+pkt("agent=x\n")+pkt("ls-refs=unborn\n")+
				pkt("fetch=shallow\n")+pkt("server-option\n")+pkt("object-format=sha1\n")+"0000")
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", packType)
		f(w, r)
	}
}

// nothingLanded expects that an object is missing as before.
func nothingLanded(t *testing.T, f *forge, id string) {
	t.Helper()
	if left := f.missingOf("x"); len(left) != 1 || left[0] != id {
		t.Errorf("%v is missing, want %s", left, id)
	}
	if f.arrived["x"] != 0 {
		t.Error("the forge is told of data that has not come")
	}
}

// TestFaults asks servers that misbehave on purpose.
func TestFaults(t *testing.T) {
	dir, id := work(t, "one")
	good := newRemote(t)
	good.add(t, "x", dir)
	forward := func(change func([]byte) []byte) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			testkit.Forward(w, r, good.URL, change)
		}
	}
	for name, test := range map[string]struct {
		serve   func(w http.ResponseWriter, r *http.Request)
		outcome uint32
		reason  string
		retry   int64
	}{
		"nobody is home":                  {status(404), abi.OutcomeNotFound, "404 Not Found", 0},
		"gone":                            {status(410), abi.OutcomeNotFound, "410", 0},
		"wants a password":                {status(401, "WWW-Authenticate", "Basic realm=x"), abi.OutcomeRefused, "401 Unauthorized", 0},
		"wants another":                   {status(403), abi.OutcomeRefused, "403 Forbidden", 0},
		"wants rest":                      {status(429, "Retry-After", "120"), abi.OutcomeRateLimited, "429", 120_000},
		"wants rest for ever":             {status(429, "Retry-After", "99999999999999"), abi.OutcomeRateLimited, "429", 366 * 24 * 3600_000},
		"wants less than none":            {status(429, "Retry-After", "-5"), abi.OutcomeRateLimited, "429", 0},
		"is broken":                       {status(500), abi.OutcomeServer, "500", 0},
		"is busy":                         {status(503, "Retry-After", "7"), abi.OutcomeServer, "503", 7_000},
		"is a teapot":                     {status(418), abi.OutcomeProtocol, "418", 0},
		"says nothing":                    {status(204), abi.OutcomeProtocol, "204", 0},
		"is a web page":                   {status(200, "Content-Type", "text/html"), abi.OutcomeProtocol, "text/html", 0},
		"is a dumb server":                {status(200, "Content-Type", "text/plain"), abi.OutcomeProtocol, "smart protocol", 0},
		"redirects to ssh":                {status(302, "Location", "ssh://git@example.com/x/info/refs?service=git-upload-pack"), abi.OutcomeRefused, "not http or https", 0},
		"redirects to a file":             {status(302, "Location", "file:///etc/info/refs?service=git-upload-pack"), abi.OutcomeRefused, "not http or https", 0},
		"redirects with a name":           {status(302, "Location", "http://a:b@example.com/x/info/refs?service=git-upload-pack"), abi.OutcomeRefused, "user name", 0},
		"redirects to port 25":            {status(302, "Location", "http://example.com:25/x/info/refs?service=git-upload-pack"), abi.OutcomeRefused, "port", 0},
		"redirects to a page":             {status(302, "Location", "/login"), abi.OutcomeProtocol, "something else", 0},
		"redirects to nowhere":            {status(302), abi.OutcomeProtocol, "nowhere", 0},
		"redirects in circles":            {status(307, "Location", "/x.git/info/refs?service=git-upload-pack"), abi.OutcomeProtocol, "too often", 0},
		"redirects a request for objects": {advertise(status(302, "Location", "/y.git/git-upload-pack")), abi.OutcomeProtocol, "302", 0},
		"fails at the second request":     {advertise(status(500)), abi.OutcomeServer, "500", 0},
		"has another type for packs":      {advertise(status(200, "Content-Type", "text/html")), abi.OutcomeProtocol, "text/html", 0},
		"sends nothing":                   {advertise(func(http.ResponseWriter, *http.Request) {}), abi.OutcomeProtocol, "", 0},
		"sends garbage":                   {advertise(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello, world") }), abi.OutcomeProtocol, "", 0},
		"lacks the object": {advertise(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, pkt("ERR upload-pack: not our ref "+object(1)))
		}), abi.OutcomeProtocol, "", 0},
		"sends half a pack":    {forward(func(b []byte) []byte { return b[:len(b)/2] }), abi.OutcomeProtocol, "", 0},
		"sends a corrupt pack": {forward(func(b []byte) []byte { b[len(b)-30] ^= 0x55; return b }), abi.OutcomeProtocol, "", 0},
		"announces 4 billion objects": {advertise(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, pkt("packfile\n")+pkt("\x01"+packOf(1<<32-1)))
		}), abi.OutcomeTooLarge, "too many objects", 0},
		"says that a delta makes 2 TiB": {advertise(sends(deltas(1, 1<<41))), abi.OutcomeTooLarge, "takes more work than it may", 0},
		"puts 600 deltas on each other": {advertise(sends(deltas(600, 4))), abi.OutcomeTooLarge, "deltas are more than 500 deep", 0},
		"sends a pack without an end": {advertise(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, pkt("packfile\n")+pkt("\x01"+packOf(1000)))
			block := pkt("\x01" + strings.Repeat("x", 60_000))
			for {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
		}), 0, "", 0}, // git or the limit is first
		"sends progress without an end": {advertise(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, pkt("packfile\n"))
			block := pkt("\x02" + strings.Repeat("x", 60_000))
			for {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
		}), abi.OutcomeTooLarge, "too many refs", 0}, // they are no pack
		"sends refs without an end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", refsType)
			_, _ = io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000")
			for i := 0; ; i++ {
				if _, err := io.WriteString(w, pkt(fmt.Sprintf("%s refs/heads/%d\n", object(i), i))); err != nil {
					return
				}
			}
		}, abi.OutcomeTooLarge, "too many refs", 0},
		"sends a few long lines without an end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", refsType)
			_, _ = io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000")
			for i := 0; ; i++ {
				if _, err := io.WriteString(w, pkt(fmt.Sprintf("%s refs/heads/%d%s\n", object(i), i, strings.Repeat("x", 50_000)))); err != nil {
					return
				}
			}
		}, abi.OutcomeTooLarge, "too many refs", 0},
		"has refs that lie": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.Header().Set("Content-Type", refsType)
				_, _ = io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+pkt(id+" refs/heads/main\x00side-band-64k allow-tip-sha1-in-want\n")+"0000")
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", packType)
			_, _ = io.WriteString(w, pkt("NAK\n")+pkt("\x01PACK\x00\x00\x00\x02\x00\x00\x00\x00\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e")+"0000")
		}, abi.OutcomeProtocol, "", 0},
		"hangs in a pack": {advertise(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, pkt("packfile\n")+pkt("\x01"+packOf(3)))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), abi.OutcomeTimeout, "", 0}, // TestSlowServers has the reasons
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, f := attempt(t, always(t, test.serve), id, func(c *Config) {
				c.Limits = Limits{
					Bytes: 4 << 20, Objects: 100_000, Refs: 5000, RefBytes: 2 << 20, Whole: time.Hour, Stall: patience(test.outcome), Rate: 1000, Connections: 10,
				}
			}, nil)
			if test.outcome == 0 {
				if got.Outcome != abi.OutcomeTooLarge && got.Outcome != abi.OutcomeProtocol {
					t.Errorf("%s: %+v", OutcomeName(got.Outcome), got)
				}
			} else if got.Outcome != test.outcome || !strings.Contains(got.Reason, test.reason) || got.RetryAfter != test.retry {
				t.Errorf("%s, want %s: %+v", OutcomeName(got.Outcome), OutcomeName(test.outcome), got)
			}
			if got.Found != 0 || got.Missing != 1 || got.Skipped {
				t.Errorf("%+v", got)
			}
			if strings.Contains(got.Reason, "127.0.0.1") {
				t.Errorf("the reason tells of the gate: %s", got.Reason)
			}
			nothingLanded(t, f, id)
		})
	}
}

// patience is how long a server may take: a second if the test expects a timeout, and otherwise
// longer than a machine may pause.
func patience(outcome uint32) time.Duration {
	if outcome == abi.OutcomeTimeout {
		return time.Second
	}
	return time.Hour
}

// TestWatchdog has servers send as little as they may, and less. One that prepares a pack
// says something in each Stall, and takes maxQuiet of them at most; what streams comes at Rate.
func TestWatchdog(t *testing.T) {
	const stall, rate, every = time.Second, 1000, 100 * time.Millisecond
	for name, test := range map[string]struct {
		bytes   func(at time.Duration) int // that come then
		streams time.Duration              // when the pack begins
		cause   error
		after   time.Duration
	}{
		"sends nothing":            {func(time.Duration) int { return 0 }, time.Hour, errStalled, stall},
		"stops preparing":          {func(at time.Duration) int { return max(0, int((5*stall-at)/every)) }, time.Hour, errStalled, 6 * stall},
		"prepares for ever":        {func(time.Duration) int { return 1 }, time.Hour, errQuiet, (maxQuiet + 1) * stall},
		"prepares, and streams":    {func(time.Duration) int { return 100 }, maxQuiet * stall, nil, 0},
		"streams":                  {func(time.Duration) int { return 100 }, 0, nil, 0},
		"streams too slowly":       {func(time.Duration) int { return 99 }, 0, errStalled, stall},
		"streams too slowly later": {func(time.Duration) int { return 99 }, 4*stall + stall/2, errStalled, 5 * stall},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &session{proxy: &egressProxy{limits: Limits{Stall: stall, Rate: rate}}}
				s.ctx, s.cancel = context.WithCancelCause(t.Context())
				defer s.cancel(nil)
				began := time.Now()
				d := s.watch(false)
				defer d.stop()
				// Between two looks, not at the same time.
				time.Sleep(every / 2)
				for at := time.Duration(0); at < time.Minute && s.ctx.Err() == nil; at += every {
					d.streams.Store(at >= test.streams)
					d.moved(test.bytes(at))
					select {
					case <-s.ctx.Done():
					case <-time.After(every):
					}
				}
				if cause, after := context.Cause(s.ctx), time.Since(began); !errors.Is(cause, test.cause) || cause != nil && after != test.after {
					t.Errorf("%v after %v, want %v after %v", cause, after, test.cause, test.after)
				}
			})
		})
	}
}

// silent is an address at which nobody listens: it is taken.
func silent(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	syscall.CloseOnExec(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*syscall.SockaddrInet4).Port)
}

// TestConnections has servers that fail below HTTP.
func TestConnections(t *testing.T) {
	plain := always(t, status(404))
	tlsServer := httptest.NewTLSServer(http.HandlerFunc(status(404)))
	t.Cleanup(tlsServer.Close)
	for name, test := range map[string]struct {
		url     string
		outcome uint32
	}{
		"no certificate that we know": {tlsServer.URL + "/x", abi.OutcomeTLS},
		"no TLS at all":               {strings.Replace(plain, "http:", "https:", 1), abi.OutcomeTLS},
		"nobody listens":              {"http://" + silent(t) + "/x", abi.OutcomeUnreachable},
		"no such name":                {"http://nobody.invalid/x", abi.OutcomeDNS},
		"ends at once":                {raw(t, func(net.Conn) {}) + "/x", abi.OutcomeUnreachable},
		"ends after the request":      {raw(t, func(c net.Conn) { readHead(c) }) + "/x", abi.OutcomeUnreachable},
		"hangs":                       {raw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) + "/x", abi.OutcomeTimeout},
		"speaks another protocol":     {raw(t, func(c net.Conn) { readHead(c); _, _ = io.WriteString(c, "SSH-2.0-x\r\n\r\n") }) + "/x", abi.OutcomeProtocol},
		"has a head without an end": {raw(t, func(c net.Conn) {
			readHead(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}) + "/x", abi.OutcomeProtocol},
		"TLS that hangs": {strings.Replace(raw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), "http:", "https:", 1) + "/x", abi.OutcomeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := attempt(t, test.url, object(1), func(c *Config) { c.Limits.Stall = patience(test.outcome) }, func(h *Hunter) {
				lookup := h.guard.lookup
				h.guard.lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
					if name == "nobody.invalid" {
						return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
					}
					return lookup(ctx, name)
				}
			})
			if got.Outcome != test.outcome {
				t.Errorf("%s, want %s: %+v", OutcomeName(got.Outcome), OutcomeName(test.outcome), got)
			}
		})
	}
}

// TestAddressesThatChange has a name that leads to the public internet when it is
// checked, and to this machine when it is used. A redirect is a second use.
func TestAddressesThatChange(t *testing.T) {
	asked := 0
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer inside.Close()
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	for name, addrs := range map[string][]string{
		"private":        {"127.0.0.1"},
		"private second": {"0.0.0.0", "127.0.0.1"},
		"mapped":         {"::ffff:127.0.0.1", "::1"},
		"none":           {},
		"link-local":     {"169.254.169.254", "fe80::1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := attempt(t, "http://git.example.com:"+port+"/x", object(1), func(c *Config) { c.Addresses.Private = false }, func(h *Hunter) {
				h.guard.lookup = func(context.Context, string) (list []netip.Addr, err error) {
					for _, a := range addrs {
						list = append(list, netip.MustParseAddr(a))
					}
					return list, nil
				}
			})
			if got.Outcome != abi.OutcomeRefused || !strings.Contains(got.Reason, "not public") {
				t.Errorf("%+v", got)
			}
		})
	}
	if asked != 0 {
		t.Errorf("a server on a private address was asked %d times", asked)
	}
}

// TestRedirectInside has a public server redirect to a private address.
func TestRedirectInside(t *testing.T) {
	asked := 0
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer inside.Close()
	outside := httptest.NewServer(http.HandlerFunc(status(302, "Location", inside.URL+"/x/info/refs?service=git-upload-pack")))
	defer outside.Close()
	_, port, _ := net.SplitHostPort(outside.Listener.Addr().String())
	got, _ := attempt(t, "http://git.example.com:"+port+"/x", object(1), func(c *Config) { c.Addresses.Private = false }, func(h *Hunter) {
		h.guard.private = true // so that the test can be the public server
		h.guard.lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
	})
	if got.Outcome != abi.OutcomeRefused || !strings.Contains(got.Reason, "not a public address") || asked != 0 {
		t.Errorf("%+v; asked %d times", got, asked)
	}
}

// TestRedirectToPlain has a server redirect from https to http: what was private on
// the way is not made public.
func TestRedirectToPlain(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+r.URL.RequestURI(), http.StatusFound)
	}))
	defer s.Close()
	h := newHunter(t, newForge(t), nil, nil)
	g, u := reach(t, h, s.URL+"/x")
	g.transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	fetch, err := g.open(t.Context(), u, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fetch.close()
	if resp, err := http.Get(fetch.url() + refsPath + "?" + refsQuery); err == nil {
		_ = resp.Body.Close()
	}
	if err := fetch.failure(); err == nil || !strings.Contains(err.Error(), "from https to http") {
		t.Errorf("%v", err)
	}
}

// TestTheGateIsShut asks the gate without the secret of a session, for other paths,
// and after the end.
func TestTheGateIsShut(t *testing.T) {
	asked := 0
	url := always(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", refsType)
	})
	h := newHunter(t, newForge(t), nil, nil)
	g, u := reach(t, h, url)
	s, err := g.open(t.Context(), u, nil)
	if err != nil {
		t.Fatal(err)
	}
	get := func(url string) int {
		resp, err := http.Get(url)
		if err != nil {
			return -1
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	base := "http://" + g.listener.Addr().String()
	for _, path := range []string{"/", "/info/refs?service=git-upload-pack", "/" + strings.Repeat("0", 32) + "/info/refs?service=git-upload-pack"} {
		if code := get(base + path); code != http.StatusNotFound {
			t.Errorf("%s without the secret: %d", path, code)
		}
	}
	for _, path := range []string{"", "/", "/HEAD", "/info/refs", "/info/refs?service=git-receive-pack", "/objects/info/packs", "/git-upload-pack", "/../../x"} {
		if code := get(s.url() + path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if asked != 0 {
		t.Errorf("the server was asked %d times", asked)
	}
	if code := get(s.url() + refsPath + "?" + refsQuery); code != http.StatusOK || asked != 1 {
		t.Errorf("with the secret: %d, asked %d times", code, asked)
	}
	s.close()
	if code := get(s.url() + refsPath + "?" + refsQuery); code != http.StatusNotFound || asked != 1 {
		t.Errorf("after the end: %d, asked %d times", code, asked)
	}
}

// TestSilentAddress has a name with an address that does not answer before one that
// does. No packet is sent: time in the bubble waits for none.
func TestSilentAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, answers := newGuard(true, 3), errors.New("connection refused")
		g.lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")}, nil
		}
		g.dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			if strings.HasPrefix(address, "127.0.0.2:") {
				<-ctx.Done()
				return ctx.Err()
			}
			return answers
		}
		began := time.Now()
		if _, err := g.dial(t.Context(), "tcp", "git.example.com:443"); !errors.Is(err, answers) {
			t.Errorf("%v, want the answer of the second address", err)
		}
		if took := time.Since(began); took < dialTime/2 || took >= dialTime {
			t.Errorf("it took %v, want half of %v for the first address", took, dialTime)
		}
		if len(g.open) != 0 {
			t.Errorf("%v", g.open)
		}
	})
}

// TestJudge has git end before the server does, and be content.
func TestJudge(t *testing.T) {
	failed := fmt.Errorf("fetch objects: %w", &gitrepo.Failure{Stderr: "fatal: no"})
	for name, test := range map[string]struct {
		found      int
		cause, git error
		outcome    uint32
	}{
		"nothing":                   {0, nil, nil, abi.OutcomeNotFound},
		"nothing, and it goes on":   {0, errClosed, nil, abi.OutcomeNotFound},
		"a part, and it goes on":    {1, errClosed, nil, abi.OutcomePartial},
		"all, and it goes on":       {2, errClosed, nil, abi.OutcomeOK},
		"git fails, and it goes on": {0, errClosed, failed, abi.OutcomeProtocol},
		"git fails":                 {0, nil, failed, abi.OutcomeProtocol},
		"this machine fails":        {0, nil, errTrap, abi.OutcomeUnspecified},
		"git works for too long":    {0, errClosed, fmt.Errorf("fetch objects: %w", &gitrepo.Failure{Err: &gitrepo.Refused{}}), abi.OutcomeTooLarge},
	} {
		if got := judge(2, test.found, test.cause, test.git); got.Outcome != test.outcome {
			t.Errorf("%s: %s, want %s", name, OutcomeName(got.Outcome), OutcomeName(test.outcome))
		}
	}
}

// TestCrowdedAddress names one machine by many names.
func TestCrowdedAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := newGuard(true, 3)
	g.lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	var open []net.Conn
	for i := range 4 {
		conn, err := g.dial(t.Context(), "tcp", fmt.Sprintf("a%d.example.com:%s", i, port))
		if (err != nil) != (i == 3) {
			t.Fatalf("connection %d: %v", i, err)
		}
		if err == nil {
			open = append(open, conn)
		}
	}
	for _, conn := range open {
		_ = conn.Close()
		_ = conn.Close() // counts once
	}
	if len(g.open) != 0 {
		t.Errorf("%v", g.open)
	}
	// It is our own limit, so no domain gets the blame.
	if got, _ := attempt(t, "http://127.0.0.1:"+port+"/x", object(1), func(c *Config) { c.Limits.Connections = 0 }, nil); !got.Crowded || got.Outcome != abi.OutcomeUnspecified {
		t.Errorf("%+v", got)
	}
}

// TestOurFault says which errors are no server's fault.
func TestOurFault(t *testing.T) {
	_, id := work(t, "x")
	// No user can write to the folder of the repository: it is a file.
	dir, _ := work(t, "one")
	good := newRemote(t)
	got, _ := attempt(t, good.add(t, "x", dir), id, nil, func(h *Hunter) {
		f := h.cfg.Repos.(*forge)
		trash := filepath.Join(filepath.Dir(filepath.Dir(f.wants["x"][0].repo.Dir())), ".trash")
		if err := os.RemoveAll(trash); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(trash, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if got.Outcome != abi.OutcomeUnspecified || got.Missing != 1 || good.asked() != 0 {
		t.Errorf("%+v, asked %d times", got, good.asked())
	}
	q := queue.New(queue.DefaultBackoff{}, queue.DefaultClamps)
	q.FetchNow(1, "x", "")
	for _, w := range q.Work(1) {
		q.Looked(1, w.Ticket, queue.Plan{URLs: []queue.URL{{Text: "http://d/x", Domain: "d"}}, Missing: 1})
	}
	for _, w := range q.Work(1) {
		q.Done(2, w.Ticket, got)
	}
	if d := q.Domains(2, 1)[0]; d.Failures != 0 || d.Health != abi.HealthUnspecified {
		t.Errorf("a domain is blamed: %+v", d)
	}
}
