package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"talon/host/relaysync"
)

// fakeNodes has the roles of another surface answered by that.
type fakeNodes struct {
	other Surface
	roles []string
	err   error
}

func (f *fakeNodes) Has(string) bool { return false }

func (f *fakeNodes) Ask(ctx context.Context, role string, request []byte) ([]byte, error) {
	f.roles = append(f.roles, role)
	if f.err != nil {
		return nil, f.err
	}
	return Answer(f.other, slog.New(slog.DiscardHandler))(ctx, request), nil
}

// TestOtherNode: what the node with a role says, another says too.
func TestOtherNode(t *testing.T) {
	hunt, sync := new(fakeHunt), new(fakeSync)
	log := slog.New(slog.DiscardHandler)
	there := Surface{Plugins: &fake{}, Hunt: hunt, Sync: sync}
	nodes := &fakeNodes{other: there}
	ask := func(s Surface, method, uri, body string) (int, string) {
		t.Helper()
		w := httptest.NewRecorder()
		h := &handler{Surface: s, log: log, changing: make(chan struct{}, 1)}
		h.routes().ServeHTTP(w, httptest.NewRequest(method, uri, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	here := Surface{Plugins: &fake{}, Nodes: nodes}
	same := func(method, uri, body string) {
		t.Helper()
		code, text := ask(here, method, uri, body)
		wantCode, wantText := ask(there, method, uri, body)
		if code != wantCode || text != wantText {
			t.Errorf("%s %s is %d %s; want %d %s", method, uri, code, text, wantCode, wantText)
		}
	}
	same(http.MethodGet, pathHunt+"?limit=7", "")
	same(http.MethodPost, pathHuntNow, `{"identifier":"x"}`)
	same(http.MethodGet, pathSync+"?limit=0", "")
	same(http.MethodPost, pathSyncNow, `{"relay":"wss://a?b=c&d"}`)
	same(http.MethodPost, pathSyncUnbar, `{`)
	sync.err = relaysync.ErrUnknownRelay
	same(http.MethodGet, pathSync+"?relay=wss://b", "")
	if sync.asked.Relay != "wss://b" || len(hunt.hurried) != 2 || len(sync.about) != 2 {
		t.Errorf("%+v, %+v", hunt, sync)
	}
	if got := strings.Join(nodes.roles, " "); got != "hunt hunt sync sync sync sync" {
		t.Errorf("asked for roles %s", got)
	}
	nodes.err = errors.New("no node has it")
	if code, text := ask(here, http.MethodGet, pathSync, ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "no node has it") {
		t.Errorf("%d %s", code, text)
	}
	// Nothing else may be asked from another node.
	answer := Answer(there, log)(t.Context(), []byte(`{"method":"POST","uri":"/mode","body":"e30="}`))
	if !strings.Contains(string(answer), `"status":404`) {
		t.Errorf("%s", answer)
	}
}
