package contain

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRun(t *testing.T) {
	var log bytes.Buffer
	g := New(Writer, slog.New(slog.NewTextHandler(&log, nil)))
	failed := errors.New("no panic")
	if err := g.Run(func() error { return failed }); err != failed {
		t.Errorf("the error of a function becomes %v", err)
	}
	err := g.Run(func() error { return breaks(t) })
	var contained *Error
	if !errors.As(err, &contained) || contained.Where != Writer {
		t.Fatalf("a panic becomes %v", err)
	}
	if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "breaks") || !strings.Contains(s, "where=writer") {
		t.Errorf("the log has not one line with the stack and the place:\n%s", s)
	}
	for range 100 {
		_ = g.Run(func() error { return breaks(t) })
	}
	if n := strings.Count(log.String(), "\n"); n > 100 {
		t.Errorf("%d stacks are logged at once", n)
	}
	if n := testutil.ToFloat64(g.Collector()); n != 101 {
		t.Errorf("%v panics are counted", n)
	}
}

func breaks(t *testing.T) error {
	var list []int
	return errors.New(t.Name() + string(rune(list[len(t.Name())])))
}

// Guards of several places are registered together: they are one metric.
func TestOneMetric(t *testing.T) {
	all := prometheus.NewRegistry()
	for _, where := range []Place{Relay, Writer, Git} {
		if err := all.Register(New(where, slog.New(slog.DiscardHandler)).Collector()); err != nil {
			t.Error(err)
		}
	}
	families, err := all.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 3 {
		t.Errorf("%d families, %v", len(families), err)
	}
}

func TestHandler(t *testing.T) {
	g := New(HTTP, slog.New(slog.DiscardHandler))
	var serverLog bytes.Buffer
	s := httptest.NewUnstartedServer(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/early":
			panic("planted")
		case "/late":
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic("planted")
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/taken":
			nc, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ntaken")
			_ = nc.Close()
		default:
			_, _ = io.WriteString(w, "fine")
		}
	})))
	s.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(&serverLog, nil), slog.LevelInfo)
	s.Start()
	get := func(path string) (int, string, error) {
		resp, err := http.Get(s.URL + path)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	if status, _, err := get("/early"); status != http.StatusInternalServerError || err != nil {
		t.Errorf("a panic before the answer: %d %v", status, err)
	}
	if _, body, err := get("/late"); err == nil {
		t.Errorf("half of an answer, %q, looks whole", body)
	}
	if _, _, err := get("/abort"); err == nil {
		t.Error("an answer that is aborted looks whole")
	}
	for path, want := range map[string]string{"/": "fine", "/taken": "taken"} {
		if _, body, err := get(path); body != want || err != nil {
			t.Errorf("%s: %q %v", path, body, err)
		}
	}
	if n := testutil.ToFloat64(g.Collector()); n != 2 {
		t.Errorf("%v panics are counted, want 2: an abort is none", n)
	}
	s.Close()
	if serverLog.Len() > 0 {
		t.Errorf("the HTTP server logs on its own: %s", serverLog.String())
	}
}
