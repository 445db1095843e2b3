package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"talon/host/bound"
)

// TestFlowOfRequests has one network ask for far more than its share at once: some requests wait,
// and the others get status 503 after a while. Another network, and loopback, wait for nothing.
func TestFlowOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{templates: parseTemplates(), flow: newFlow(time.Now)}
		h.cfg.Client = func(r *http.Request) bound.Holder {
			return bound.Holder{Addr: netip.MustParseAddrPort(r.RemoteAddr).Addr()}
		}
		h.cfg.setDefaults()
		ask := func(addr string) (took time.Duration, status int) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = addr + ":1234"
			w := httptest.NewRecorder()
			began := time.Now()
			if h.awaitTurn(w, r) {
				return time.Since(began), http.StatusOK
			}
			return time.Since(began), w.Code
		}
		const n = 2000
		statuses := make(chan int, n)
		began := time.Now()
		for range n {
			go func() {
				_, status := ask("192.0.2.1")
				statuses <- status
			}()
		}
		synctest.Wait()
		for _, addr := range []string{"198.51.100.1", "127.0.0.1"} {
			if took, status := ask(addr); took != 0 || status != http.StatusOK {
				t.Errorf("%s waits %v and gets %d", addr, took, status)
			}
		}
		count := make(map[int]int)
		for range n {
			count[<-statuses]++
		}
		if most := flowPerSecond * int((flowBurst+maxFlowWait)/time.Second); count[http.StatusOK] != most || count[http.StatusServiceUnavailable] != n-most {
			t.Errorf("%v, want %d pages", count, most)
		}
		if took := time.Since(began); took != maxFlowWait {
			t.Errorf("the last answer took %v, want %v", took, maxFlowWait)
		}
		if took, status := ask("192.0.2.1"); took > 100*time.Millisecond || status != http.StatusOK {
			t.Errorf("afterwards the network waits %v and gets %d", took, status)
		}
	})
}
