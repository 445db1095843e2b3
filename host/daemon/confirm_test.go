package daemon

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"talon/host"
)

// anyQuery lets everybody read.
type anyQuery struct{}

func (anyQuery) Connect(context.Context, *host.Connection) (host.Ruling, error) {
	return host.Ruling{Action: host.Accept}, nil
}

func (anyQuery) Query(context.Context, *host.Query) (host.Ruling, error) {
	return host.Ruling{Action: host.Accept}, nil
}

// TestConfirmation shows that a node which has not read the moderation log for a minute serves
// nothing that is stored, and goes on when it has read the log.
func TestConfirmation(t *testing.T) {
	now, last := time.Unix(1000, 0), time.Unix(1000, 0)
	c := &confirmation{last: func() time.Time { return last }, limit: time.Minute, now: func() time.Time { return now }}
	h := c.handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	check := func(what string, status int, action host.Action) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != status || status != http.StatusOK && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: status %d, want %d", what, w.Code, status)
		}
		if r, err := c.policy(anyQuery{}).Query(t.Context(), nil); err != nil || r.Action != action {
			t.Errorf("%s: a query is answered %+v, %v", what, r, err)
		}
	}
	check("at first", http.StatusOK, host.Accept)
	now = now.Add(time.Minute)
	check("after a minute", http.StatusOK, host.Accept)
	now = now.Add(time.Second)
	check("later", http.StatusServiceUnavailable, host.Reject)
	last = now
	check("when the log is read", http.StatusOK, host.Accept)
	c.last, now = nil, now.Add(time.Hour)
	check("alone", http.StatusOK, host.Accept)
}
