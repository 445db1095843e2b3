package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"talon/host/gitfetch"
	"talon/host/relaysync"
)

type fakeHunt struct {
	hurried []string
	limit   int
	err     error
}

func (f *fakeHunt) Status(_ context.Context, maximum int) (gitfetch.Status, error) {
	f.limit = maximum
	return gitfetch.Status{Waiting: 1, Repositories: []gitfetch.RepositoryStatus{{Identifier: "x", Missing: 2}}}, nil
}

func (f *fakeHunt) FetchNow(_ context.Context, repository, identifier string) error {
	f.hurried = append(f.hurried, repository+" "+identifier)
	return f.err
}

func TestHunt(t *testing.T) {
	client := serve(t, API{Plugins: &fake{}}, private(t))
	_, err := client.Hunt(t.Context(), 7)
	if now := client.HuntNow(t.Context(), "30617:ab:x", "x"); err == nil || now == nil || !strings.Contains(now.Error(), "does not hunt") {
		t.Errorf("without a hunt: %v, %v", err, now)
	}
	hunt := &fakeHunt{}
	client = serve(t, API{Plugins: &fake{}, Hunt: hunt}, private(t))
	if status, err := client.Hunt(t.Context(), 7); err != nil || status.Repositories[0].Missing != 2 || hunt.limit != 7 {
		t.Errorf("%+v, %v, limit %d", status, err, hunt.limit)
	}
	if err := client.HuntNow(t.Context(), "30617:ab:x", "x"); err != nil || hunt.limit != defaultHunted || hunt.hurried[0] != "30617:ab:x x" {
		t.Errorf("%v, %+v", err, hunt)
	}
	hunt.err = errors.New("too many")
	if err := client.HuntNow(t.Context(), "", "x"); err == nil || err.Error() != "too many" {
		t.Errorf("%v", err)
	}
	for _, wrong := range []string{"", strings.Repeat("x", 5000)} {
		if err := client.HuntNow(t.Context(), "", wrong); err == nil || !strings.Contains(err.Error(), "identifier") {
			t.Errorf("%.10q: %v", wrong, err)
		}
	}
}

type fakeSync struct {
	asked relaysync.Query
	about []string
	err   error
}

func (f *fakeSync) Status(_ context.Context, q relaysync.Query) (relaysync.Snapshot, error) {
	f.asked = q
	return relaysync.Snapshot{Connections: 3, Relays: []relaysync.RelaySnapshot{{Relay: "wss://a", Health: "barred"}}}, f.err
}

func (f *fakeSync) Now(_ context.Context, url string) (int, error) {
	f.about = append(f.about, "now "+url)
	return 2, f.err
}

func (f *fakeSync) Unbar(_ context.Context, url string) error {
	f.about = append(f.about, "unbar "+url)
	return f.err
}

func TestSync(t *testing.T) {
	client := serve(t, API{Plugins: &fake{}}, private(t))
	// all makes each request about a relay, and checks what is said to it.
	all := func(relay, want string) {
		t.Helper()
		_, status := client.Sync(t.Context(), relaysync.Query{Relay: relay, Limit: 1})
		_, now := client.SyncNow(t.Context(), relay)
		for _, err := range []error{status, now, client.SyncUnbar(t.Context(), relay)} {
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	all("wss://a", noSync.Error())

	f := new(fakeSync)
	client = serve(t, API{Plugins: &fake{}, Sync: f}, private(t))
	q := relaysync.Query{Relay: "wss://a?b=c&d", Repository: "30617:ab:ü", Limit: 7}
	got, err := client.Sync(t.Context(), q)
	if err != nil || got.Connections != 3 || got.Relays[0].Health != "barred" || f.asked != q {
		t.Errorf("%+v, %v, asked for %+v", got, err, f.asked)
	}
	if _, err := client.Sync(t.Context(), relaysync.Query{Limit: 1 << 30}); err != nil || f.asked.Limit != maxSynced {
		t.Errorf("%v, asked for %+v", err, f.asked)
	}
	if _, err := client.Sync(t.Context(), relaysync.Query{}); err == nil || !strings.Contains(err.Error(), "want a number from 1") {
		t.Errorf("a limit of 0: %v", err)
	}
	n, err := client.SyncNow(t.Context(), "")
	if unbarred := client.SyncUnbar(t.Context(), "wss://a"); n != 2 || err != nil || unbarred != nil || fmt.Sprint(f.about) != "[now  unbar wss://a]" {
		t.Errorf("%d, %v, %v, %q", n, err, unbarred, f.about)
	}
	f.err = fmt.Errorf("%w: x", relaysync.ErrUnknownRelay)
	all("wss://x", f.err.Error())
}

// fakeNodes has the roles of another API answered by that.
type fakeNodes struct {
	other API
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
	there := API{Plugins: &fake{}, Nodes: Here{}, Hunt: hunt, Sync: sync}
	nodes := &fakeNodes{other: there}
	ask := func(s API, method, uri, body string) (int, string) {
		t.Helper()
		w := httptest.NewRecorder()
		h := &handler{API: s, log: log, changing: make(chan struct{}, 1)}
		h.routes().ServeHTTP(w, httptest.NewRequest(method, uri, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	here := API{Plugins: &fake{}, Nodes: nodes}
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
