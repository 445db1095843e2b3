package daemon

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host/bound"
	"talon/host/config"
	"talon/host/contain"
	"talon/host/githttp"
	"talon/host/repos"
	"talon/internal/testkit"
)

// ask sends a request and returns the answer, with its body as a string.
func ask(t *testing.T, method, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// From the moment at which the addresses are taken until the daemon is ready, requests wait, and
// then get status 503: websockets, git, pages. Requests for the health do not wait.
func TestStarting(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	d := &Daemon{cfg: &config.Config{}, log: log, conns: newConnections(8, nil, log), http: contain.New(contain.HTTP, log)}
	var listeners []net.Listener
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	e := d.startListeners(listeners, time.Millisecond)
	t.Cleanup(e.close)
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="}}
	for _, l := range listeners {
		url := "http://" + l.Addr().String()
		for _, tt := range []struct {
			path   string
			header http.Header
		}{
			{"/healthz", nil},
			{"/", upgrade},
			{"/", http.Header{"Accept": {"application/nostr+json"}}},
			{"/npub1x/demo.git/info/refs?service=git-upload-pack", nil},
		} {
			resp, body := ask(t, "GET", url+tt.path, tt.header)
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Access-Control-Allow-Origin") != "*" || body != "starting\n" {
				t.Errorf("GET %s %v: %s %v %q", tt.path, tt.header, resp.Status, resp.Header, body)
			}
		}
		if resp, _ := ask(t, "OPTIONS", url+"/", nil); resp.StatusCode != 204 {
			t.Errorf("OPTIONS: %s", resp.Status)
		}
	}
	say := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	e.open(say("relay"), say("metrics"))
	for i, want := range []string{"relay", "metrics"} {
		if resp, body := ask(t, "GET", "http://"+listeners[i].Addr().String(), nil); resp.StatusCode != 200 || body != want {
			t.Errorf("after it has opened: %s %q, want %q", resp.Status, body, want)
		}
	}
}

// Requests that wait when the daemon becomes ready are served. Each network has a share of those
// that wait.
func TestStartingWaits(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	d := &Daemon{cfg: &config.Config{Proxies: proxies}, log: log, conns: newConnections(8, proxies, log), http: contain.New(contain.HTTP, log)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := d.startListeners([]net.Listener{l}, time.Hour)
	t.Cleanup(e.close)
	url := "http://" + l.Addr().String()
	from := func(addr string) http.Header { return http.Header{"X-Forwarded-For": {addr}} }
	if resp, _ := ask(t, "GET", url+"/healthz", from("192.0.2.1")); resp.StatusCode != 503 {
		t.Errorf("while it starts, the health is %s", resp.Status)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if resp, body := ask(t, "GET", url, from("198.51.100.1")); resp.StatusCode != 200 || body != "here" {
			t.Errorf("who waits gets %s %q", resp.Status, body)
		}
	})
	all.Go(func() {
		if out, err := testkit.TryGit(t.Context(), ".", "-c", "http.extraHeader=X-Forwarded-For: 198.51.100.2", "ls-remote", url+"/npub1x/demo.git"); err != nil {
			t.Errorf("git that waits says %v %s", err, out)
		}
	})
	// The heaviest network fills its share, and no more.
	for range bound.Share(maxStarting) {
		if _, err := d.conns.starting.Acquire(bound.Holder{Addr: netip.MustParseAddr("192.0.2.1")}, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	if resp, _ := ask(t, "GET", url, from("192.0.2.1")); resp.StatusCode != 503 {
		t.Errorf("a network that has its share gets %s", resp.Status)
	}
	testkit.Eventually(t, "the first two wait", func() bool { return d.conns.starting.Used() == bound.Share(maxStarting)+2 })
	e.open(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if githttp.IsGit("/", repos.IsPath, r) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = io.WriteString(w, "001e# service=git-upload-pack\n00000000") // a repository without refs
			return
		}
		_, _ = io.WriteString(w, "here")
	}))
	all.Wait()
}

// Talon's own metrics are shown under the operator's prefix, whether the package that
// makes them knows it or not; those of the process keep their names.
func TestMetricsPrefix(t *testing.T) {
	for prefix, own := range map[string]string{"talon": "talon", "ngit": "ngit"} {
		r := newRegistry("1.2.3", prefix, "")
		count := func(name string) prometheus.Collector {
			return prometheus.NewCounter(prometheus.CounterOpts{Name: name})
		}
		if err := r.Register(count("talon_events_total"), count(prefix+"_sync_total")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			w := httptest.NewRecorder()
			r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			text := w.Body.String()
			for _, want := range []string{own + "_build_info{version=\"1.2.3\"} 1\n", own + "_events_total 0\n", own + "_sync_total 0\n", "\ngo_goroutines "} {
				if !strings.Contains(text, want) {
					t.Errorf("with the prefix %s there is no %q in\n%s", prefix, want, text)
				}
			}
			if own != "talon" && strings.Contains(text, "talon") {
				t.Errorf("with the prefix %s there are names with talon:\n%s", prefix, text)
			}
		}
	}
}

// TestMetricsAreForThisMachine shows who gets /metrics on the public address.
func TestMetricsAreForThisMachine(t *testing.T) {
	shown := hereOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, tt := range []struct {
		from   string
		header http.Header
		want   int
	}{
		{"127.0.0.1:5", nil, 200}, {"[::1]:5", nil, 200}, {"192.0.2.1:5", nil, 403}, {"10.0.0.1:5", nil, 403},
		{"127.0.0.1:5", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, 403}, {"127.0.0.1:5", http.Header{"Via": {"1.1 proxy"}}, 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.RemoteAddr, r.Header = tt.from, tt.header
		w := httptest.NewRecorder()
		shown.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("from %s with %v: got %d, want %d", tt.from, tt.header, w.Code, tt.want)
		}
	}
}
