package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"talon/host"
	"talon/host/plugin"
	"talon/host/plugin/sidecar"
	"talon/internal/testkit"
)

// fake has one plugin, "lists", and notes what is asked of it.
type fake struct {
	asked   []string
	err     error
	block   chan struct{} // if not nil, changes wait for it
	running atomic.Int32
	most    atomic.Int32 // changes at the same time

	signature []byte // of the last swap
}

var lists = plugin.Status{Name: "lists", Mode: sidecar.Shadow, Calls: 7}

func (f *fake) List() []plugin.Status { return []plugin.Status{lists} }

func (f *fake) Disagreements(name string, limit int) []plugin.Disagreement {
	return []plugin.Disagreement{{Plugin: name, Event: fmt.Sprint(limit)}}
}

func (f *fake) Why(id host.ID) (plugin.Why, bool) {
	return plugin.Why{Event: id.String(), Source: "client"}, id[0] == 1
}

func (f *fake) Swap(ctx context.Context, name string, wasm, signature []byte) (plugin.Status, error) {
	f.most.Store(max(f.most.Load(), f.running.Add(1)))
	defer f.running.Add(-1)
	if f.block != nil {
		select {
		case <-f.block:
		case <-ctx.Done():
			return plugin.Status{}, ctx.Err()
		}
	}
	f.asked = append(f.asked, fmt.Sprintf("swap %q %d", name, len(wasm)))
	f.signature = signature
	return lists, f.err
}

func (f *fake) Rollback(_ context.Context, name string, steps int) (plugin.Status, error) {
	f.asked = append(f.asked, fmt.Sprintf("rollback %q %d", name, steps))
	return lists, f.err
}

func (f *fake) SetMode(_ context.Context, name string, m sidecar.Mode) (plugin.Status, error) {
	f.asked = append(f.asked, fmt.Sprintf("mode %q %s", name, m))
	return lists, f.err
}

func (f *fake) Set(_ context.Context, name string, list []sidecar.Assignment) (plugin.Status, error) {
	f.asked = append(f.asked, fmt.Sprintf("set %q %v", name, list))
	return lists, f.err
}

// Record says what it is asked, writes two lines and a part of one, and waits to be
// stopped if the plugin is "endless".
func (f *fake) Record(ctx context.Context, o plugin.Recording, write func([]byte) error) (plugin.Recorded, error) {
	if f.err != nil {
		return plugin.Recorded{}, f.err
	}
	for _, text := range []string{"", fmt.Sprintf("{%q: %d}\n", o.Plugin, o.Max), fmt.Sprintf("[%v, %v]\n", o.For, o.Redact)} {
		if err := write([]byte(text)); err != nil {
			return plugin.Recorded{}, err
		}
	}
	switch o.Plugin {
	case "endless":
		<-ctx.Done()
		return plugin.Recorded{Ended: "stopped"}, nil
	case "broken":
		_ = write([]byte(`{"half a`))
		return plugin.Recorded{}, errors.New("the disk is on fire")
	}
	return plugin.Recorded{Ended: "count", Lines: 2}, nil
}

// serve returns a client of a server.
func serve(t *testing.T, s API, path string) *Client {
	t.Helper()
	s.Nodes = cmp.Or(s.Nodes, Nodes(Here{}))
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, s, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Error("the socket is still there")
		}
	})
	return Dial(path)
}

// names are no path: nothing in them is special.
var names = []string{"lists", "", ".", "..", "../../etc", "a/b", "a?b=c&d", "%2F", "é\x00\n", strings.Repeat("x", 2000)}

func TestClient(t *testing.T) {
	// Longer than the address of a unix socket.
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	if err := os.Mkdir(long, 0o755); err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	c := serve(t, API{Plugins: f}, filepath.Join(long, "admin", "talon.sock"))
	ctx := t.Context()
	if list, err := c.List(ctx); err != nil || !reflect.DeepEqual(list, []plugin.Status{lists}) {
		t.Errorf("List: %+v, %v", list, err)
	}
	list, err := c.Disagreements(ctx, "lists", 3)
	if err != nil || len(list) != 1 || list[0].Plugin != "lists" || list[0].Event != "3" {
		t.Errorf("Disagreements: %+v, %v", list, err)
	}
	if list, err := c.Disagreements(ctx, "lists", 1<<30); err != nil || list[0].Event != "1000" {
		t.Errorf("many Disagreements: %+v, %v", list, err)
	}
	if why, err := c.Why(ctx, host.ID{1}); err != nil || why.Event != (host.ID{1}).String() || why.Source != "client" {
		t.Errorf("Why: %+v, %v", why, err)
	}
	if _, err := c.Why(ctx, host.ID{2}); err == nil || !strings.Contains(err.Error(), "no decision about event 02") {
		t.Errorf("Why of a forgotten event: %v", err)
	}
	var want []string
	for _, name := range names {
		for _, do := range []func() (plugin.Status, error){
			func() (plugin.Status, error) { return c.Swap(ctx, name, make([]byte, 100_000), nil) },
			func() (plugin.Status, error) { return c.Rollback(ctx, name, 2) },
			func() (plugin.Status, error) { return c.SetMode(ctx, name, sidecar.Off) },
			func() (plugin.Status, error) {
				return c.Set(ctx, name, []sidecar.Assignment{{Table: "config", Key: "every", Value: "true"}})
			},
		} {
			if status, err := do(); err != nil || !reflect.DeepEqual(status, lists) {
				t.Errorf("%.40q: %+v, %v", name, status, err)
			}
		}
		want = append(want, fmt.Sprintf("swap %q 100000", name), fmt.Sprintf("rollback %q 2", name), fmt.Sprintf("mode %q off", name), fmt.Sprintf("set %q [{config every true}]", name))
	}
	if !reflect.DeepEqual(f.asked, want) {
		t.Errorf("asked %q", f.asked)
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
	}{
		{fmt.Errorf("%w: x", plugin.ErrUnknown), 404},
		{fmt.Errorf("%w: the module imports kv.get", plugin.ErrRefused), 422},
		{errors.New("the disk is full"), 500},
		{context.DeadlineExceeded, 503},
	} {
		f := &fake{err: tt.err}
		c := serve(t, API{Plugins: f}, private(t))
		if _, err := c.Swap(t.Context(), "x", nil, nil); err == nil || err.Error() != tt.err.Error() {
			t.Errorf("got %v, want %v", err, tt.err)
		}
		if status, text := raw(t, c, "POST", "/rollback", `{"plugin":"x"}`); status != tt.status {
			t.Errorf("%v: got %d %s, want %d", tt.err, status, text, tt.status)
		}
	}
}

// raw sends a request that the client would not.
func raw(t *testing.T, c *Client, method, target, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://talon"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestBadRequests(t *testing.T) {
	f := &fake{}
	c := serve(t, API{Plugins: f}, private(t))
	for _, tt := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"GET", "/", "", 404, "does not know"},
		{"GET", "/swap", "", 404, "does not know"},
		{"POST", "/plugins", "", 404, "does not know"},
		{"GET", "/disagreements?plugin=none", "", 404, "there is no plugin"},
		{"GET", "/disagreements?plugin=lists&limit=0", "", 400, "number from 1"},
		{"GET", "/disagreements?plugin=lists&limit=x", "", 400, "number from 1"},
		{"GET", "/why", "", 400, "64 lower-case hex"},
		{"GET", "/why?event=" + strings.Repeat("g", 64), "", 400, "64 lower-case hex"},
		{"GET", "/why?event=" + strings.Repeat("0", 64), "", 404, "no decision"},
		{"POST", "/rollback", "", 400, "could not be read"},
		{"POST", "/rollback", `{"steps":"one"}`, 400, "could not be read"},
		{"POST", "/rollback", `{} {}`, 400, "could not be read"},
		{"POST", "/rollback", `{"plugin":"` + strings.Repeat("x", maxJSON) + `"}`, 413, "too big"},
		{"POST", "/mode", `{"plugin":"x"}`, 400, "mode is missing"},
		{"POST", "/mode", `{"plugin":"x","mode":"loud"}`, 400, "want enforce, shadow or off"},
	} {
		status, text := raw(t, c, tt.method, tt.target, tt.body)
		var got failure
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != tt.status || !strings.Contains(got.Error, tt.want) {
			t.Errorf("%s %.60s: got %d %s; want %d %q", tt.method, tt.target, status, text, tt.status, tt.want)
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("it was done: %q", f.asked)
	}
}

func TestModuleIsBounded(t *testing.T) {
	f := &fake{}
	c := serve(t, API{Plugins: f}, private(t))
	big := make([]byte, MaxModule+1)
	if _, err := c.Swap(t.Context(), "x", big, nil); err == nil || !strings.Contains(err.Error(), "at most 33554432") {
		t.Errorf("got %v", err)
	}
	// A client that does not say how much comes.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://talon/swap?plugin=x", io.MultiReader(bytes.NewReader(big)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || len(f.asked) > 0 {
		t.Errorf("got %s, and did %q", resp.Status, f.asked)
	}
	if _, err := c.Swap(t.Context(), "x", big[1:], nil); err != nil {
		t.Errorf("of the largest size: %v", err)
	}
}

// TestSwapSigned sends the signature of a module with it.
func TestSwapSigned(t *testing.T) {
	f := &fake{}
	c := serve(t, API{Plugins: f}, private(t))
	for _, signature := range [][]byte{[]byte("{\"content\":\"ä\"}\n"), nil, bytes.Repeat([]byte{255}, MaxSignature)} {
		if _, err := c.Swap(t.Context(), "x", []byte("module"), signature); err != nil || !bytes.Equal(f.signature, signature) || (signature == nil) != (f.signature == nil) {
			t.Errorf("got %q, %v, want %q", f.signature, err, signature)
		}
	}
	if _, err := c.Swap(t.Context(), "x", nil, make([]byte, MaxSignature+1)); err == nil || !strings.Contains(err.Error(), "copy module and signature into the folder") {
		t.Errorf("too long: %v", err)
	}
	var status plugin.Status
	err := c.askWith(t.Context(), http.MethodPost, pathSwap, nil, http.Header{headerSignature: {"{}"}}, nil, &status)
	if err == nil || !strings.Contains(err.Error(), "not in base64") || len(f.asked) != 3 {
		t.Errorf("not in base64: %v, %q", err, f.asked)
	}
}

func TestOneChangeAtATime(t *testing.T) {
	f := &fake{block: make(chan struct{})}
	c := serve(t, API{Plugins: f}, private(t))
	const n = 5
	done := make(chan error, n)
	for range n {
		go func() { _, err := c.Swap(context.Background(), "x", nil, nil); done <- err }()
	}
	for range n {
		f.block <- struct{}{}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := f.most.Load(); n != 1 {
		t.Errorf("%d changes at the same time", n)
	}
}

// A server that stops gives up a change that is under way.
func TestStop(t *testing.T) {
	f := &fake{block: make(chan struct{})}
	path := private(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served, swapped := make(chan error, 1), make(chan error, 1)
	go func() { served <- Serve(ctx, l, API{Nodes: Here{}, Plugins: f}, slog.New(slog.DiscardHandler)) }()
	go func() { _, err := Dial(path).Swap(context.Background(), "x", nil, nil); swapped <- err }()
	testkit.Eventually(t, "a change is under way", func() bool { return f.running.Load() > 0 })
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := <-swapped; err == nil {
		t.Error("the change was made")
	}
	if _, err := Dial(path).List(t.Context()); !errors.Is(err, ErrNoServer) {
		t.Errorf("got %v", err)
	}
}

// A listener that fails is an error, and leaves no socket.
func TestServeFails(t *testing.T) {
	path := private(t)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), l, API{Nodes: Here{}, Plugins: &fake{}}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error")
	}
}

func TestNoServer(t *testing.T) {
	stale := private(t)
	dead := listen(t, stale).(*listener)
	dead.UnixListener.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no folder":     private(t),
		"no socket":     filepath.Join(t.TempDir(), "talon.sock"),
		"a dead server": stale,
		"not a folder":  filepath.Join(file, "talon.sock"),
		"not a socket":  file,
	} {
		_, err := Dial(path).List(t.Context())
		if !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
