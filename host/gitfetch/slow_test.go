package gitfetch

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talon/internal/testkit"
	"talon/sdk/abi"
)

// silence sends nothing.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// hang sends what there is, and nothing more.
func hang(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// drip sends a byte every 20 ms.
func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			if _, err := io.WriteString(w, "x"); err != nil {
				return
			}
		}
	}
}

// TestSlowServers asks servers that keep the hunt waiting. Git and the network are not
// there, so that time is virtual: TestFaults has git wait for one of them.
func TestSlowServers(t *testing.T) {
	const stall = 10 * time.Second
	for name, test := range map[string]struct {
		serve  func(w http.ResponseWriter, r *http.Request)
		reason string
		after  time.Duration
	}{
		"hangs before refs":   {silence, "timeout awaiting response headers", stall},
		"hangs before a pack": {advertise(silence), "timeout awaiting response headers", stall},
		"hangs after a head":  {advertise(hang), errStalled.Error(), stall},
		"hangs in refs": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", refsType)
			_, _ = io.WriteString(w, pkt("# service=git-upload-pack\n"))
			hang(w, r)
		}, errStalled.Error(), stall},
		"hangs in a pack": {advertise(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, pkt("packfile\n")+pkt("\x01"+packOf(3)))
			hang(w, r)
		}), errStalled.Error(), stall},
		"sends a byte now and then": {advertise(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, pkt("packfile\n")+pkt("\x01" + packOf(3) + strings.Repeat("x", 60_000))[:40])
			drip(w, r)
		}), errStalled.Error(), stall},
		"prepares a pack for ever": {advertise(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, pkt("packfile\n")+pkt("\x02" + strings.Repeat("x", 60_000))[:40])
			drip(w, r)
		}), errQuiet.Error(), (maxQuiet + 1) * stall},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := testkit.NewNetwork()
				listener := network.Listen("git.example.com:80")
				server := &http.Server{Handler: http.HandlerFunc(test.serve)}
				go func() { _ = server.Serve(listener) }()
				defer server.Close()
				e := newEgressProxy(Addresses{Private: true}, network.Dial, Limits{
					Bytes: 4 << 20, Objects: 100_000, Refs: 1000, RefBytes: 1 << 20, Whole: time.Hour, Stall: stall, Rate: 1000,
				})
				defer e.transport.CloseIdleConnections()
				u, err := e.addresses.ParseURL("http://git.example.com/x.git")
				if err != nil {
					t.Fatal(err)
				}
				s, err := e.open(t.Context(), u, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer s.close()
				began := time.Now()
				for _, request := range []*http.Request{
					httptest.NewRequest(http.MethodGet, "/"+s.secret+refsPath+"?"+refsQuery, nil),
					httptest.NewRequest(http.MethodPost, "/"+s.secret+packPath, strings.NewReader(pkt("done\n")+"0000")),
				} {
					if s.failure() == nil {
						handled(e, request)
					}
				}
				got := judge(1, 0, s.failure(), errors.New("git fails"))
				if got.Outcome != abi.OutcomeTimeout || !strings.Contains(got.Reason, test.reason) {
					t.Errorf("%s: %s, want %s", OutcomeName(got.Outcome), got.Reason, test.reason)
				}
				if took := time.Since(began); took != test.after {
					t.Errorf("it is found out after %v, want %v", took, test.after)
				}
			})
		})
	}
}

// handled has a gate answer, or break off the answer.
func handled(e *egressProxy, r *http.Request) {
	defer func() {
		if broken := recover(); broken != nil && broken != http.ErrAbortHandler {
			panic(broken)
		}
	}()
	e.ServeHTTP(httptest.NewRecorder(), r)
}
