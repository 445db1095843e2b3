package plugin

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/host/plugin/sidecar"
	"talon/host/plugin/wasmtest"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

const now = 1_700_000_000

// tiny is a policy of a few bytes that says the same about everything.
type tiny struct {
	version   string
	place     int // 0: the manifest does not say
	functions []string
	config    string // settings of the manifest, JSON

	action       uint32
	rule, reason string

	says abi.About // about the relay

	// trap makes it trap on events whose id begins with 255.
	trap bool

	// reads makes it read an event from the store before each verdict about an event.
	reads bool
}

const (
	tinyBuffer  = 4096
	tinyMessage = 1024
	tinyAbout   = 2048
	tinyRead    = 3072
	tinyID      = tinyBuffer + 2 + 1 + 2 // behind keys and lengths of request.event and event.id
)

func (p tiny) wasm(t testing.TB) []byte {
	t.Helper()
	manifestOf := map[string]any{"name": "tiny", "version": p.version, "worlds": []string{"policy"}}
	if p.place > 0 {
		manifestOf["place"] = p.place
	}
	if p.functions != nil {
		manifestOf["functions"] = p.functions
	}
	if p.reads {
		manifestOf["capabilities"] = []string{abi.CapStoreGet}
	}
	if p.config != "" {
		manifestOf["config"] = json.RawMessage(p.config)
	}
	rest, err := json.Marshal(manifestOf)
	if err != nil {
		t.Fatal(err)
	}
	manifest := append([]byte(`{"talon_manifest": 1, `), rest[1:]...)
	verdict := abi.AppendVerdict(nil, p.action, p.rule, "", p.reason)
	answer := wasmtest.Body(wasmtest.I64Const(abi.Pack(tinyMessage, uint32(len(verdict)))), wasmtest.End)
	about := abi.AppendConfigured(nil, &abi.Configured{About: p.says})
	configured := wasmtest.Body(wasmtest.I64Const(abi.Pack(tinyAbout, uint32(len(about)))), wasmtest.End)
	admit := answer
	if p.trap {
		admit = wasmtest.Body(
			wasmtest.I32Const(tinyID), wasmtest.I32Load8U, wasmtest.I32Const(255), wasmtest.I32Eq,
			wasmtest.If(wasmtest.Void), wasmtest.Unreachable, wasmtest.End, answer)
	}
	var imports []wasmtest.Import
	var before uint32 // functions that are imported
	if p.reads {
		imports, before = []wasmtest.Import{{Module: abi.ImportModule, Name: abi.CapStoreGet, Type: 3}}, 1
		admit = wasmtest.Body(wasmtest.I32Const(tinyBuffer), wasmtest.I32Const(tinyRead), wasmtest.I32Const(0), wasmtest.Call(0), wasmtest.Drop, admit)
	}
	i32 := []wasmtest.ValType{wasmtest.I32}
	at := func(addr int32) wasmtest.Code { return wasmtest.Body(wasmtest.I32Const(addr), wasmtest.End) }
	m := &wasmtest.Module{
		Types:   []wasmtest.Type{{}, {Params: i32, Results: i32}, {Params: i32, Results: []wasmtest.ValType{wasmtest.I64}}, {Params: []wasmtest.ValType{wasmtest.I32, wasmtest.I32, wasmtest.I32}, Results: i32}},
		Imports: imports,
		Funcs: []wasmtest.Func{
			{Type: 0, Code: wasmtest.End},
			{Type: 1, Code: at(tinyBuffer)},
			{Type: 2, Code: configured},
			{Type: 2, Code: admit},
			{Type: 2, Code: answer},
		},
		Memories: []wasmtest.Limits{{Min: 4}},
		Exports: []wasmtest.Export{
			{Name: abi.ExportMemory, Kind: wasmtest.KindMemory},
			{Name: abi.ExportMarker, Index: before},
			{Name: abi.ExportBuffer, Index: before + 1},
			{Name: abi.ExportConfigure, Index: before + 2},
			{Name: abi.ExportAdmit, Index: before + 3},
			{Name: abi.ExportQuery, Index: before + 4},
			{Name: abi.ExportConnect, Index: before + 4},
			{Name: abi.ExportPush, Index: before + 4},
		},
		Datas: []wasmtest.Data{{Offset: at(tinyMessage), Bytes: verdict}, {Offset: at(tinyAbout), Bytes: about}, {Offset: at(128 << 10), Bytes: manifest}},
	}
	return m.Bytes()
}

func accepting(version string) tiny {
	return tiny{version: version, place: 90, action: abi.ActionAccept, rule: "v" + version}
}

func rejecting(rule string) tiny {
	return tiny{version: "1", action: abi.ActionReject, rule: rule, reason: "blocked: " + rule}
}

// world is a folder of plugins and the registry that runs them.
type world struct {
	t *testing.T
	o Options
	*Registry

	mu  sync.Mutex // guards the field below
	now time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Unix(now, 0)}
	w.o = Options{
		Dir: t.TempDir(), History: filepath.Join(t.TempDir(), "generations"), Decisions: 1000, Instances: 2,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
	}
	return w
}

// later moves the clock on.
func (w *world) later(d time.Duration) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
}

func (w *world) file(name string) string { return filepath.Join(w.o.Dir, name) }

// drop puts a file into the folder as a careful program does.
func (w *world) drop(name string, data []byte) {
	w.t.Helper()
	hidden := w.file("." + name)
	if err := os.WriteFile(hidden, data, 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(hidden, w.file(name)); err != nil {
		w.t.Fatal(err)
	}
}

// dropSigned drops a module, and its signature.
func (w *world) dropSigned(name string, wasm []byte, by *testkit.Signer) {
	w.t.Helper()
	w.drop(name+".wasm", wasm)
	w.drop(name+".wasm.sig", signedBy(by, wasm))
}

// change drops a file, and has the registry look.
func (w *world) change(name string, data []byte) {
	w.t.Helper()
	w.drop(name, data)
	w.look()
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(w.file(name)); err != nil {
		w.t.Fatal(err)
	}
}

// open starts the registry.
func (w *world) open() error {
	w.t.Helper()
	r, err := Open(w.t.Context(), w.o)
	if err != nil {
		return err
	}
	w.Registry = r
	w.t.Cleanup(w.close)
	return nil
}

func (w *world) mustOpen() {
	w.t.Helper()
	if err := w.open(); err != nil {
		w.t.Fatal(err)
	}
}

// openWorld starts a registry with a policy that accepts everything.
func openWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.drop("open.wasm", accepting("1").wasm(t))
	w.mustOpen()
	return w
}

func (w *world) close() {
	if w.Registry == nil {
		return
	}
	if err := w.Close(context.Background()); err != nil {
		w.t.Errorf("close: %v", err)
	}
	w.Registry = nil
}

// restart is what an operator does last.
func (w *world) restart() {
	w.t.Helper()
	w.close()
	w.mustOpen()
}

// look does what happens when the folder has changed.
func (w *world) look() { w.reconcile(w.t.Context()) }

// said asks about an event and returns who decided, and how.
func (w *world) said(id byte) string {
	w.t.Helper()
	r, err := w.Admit(w.t.Context(), item(id), nil, now)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Module + " " + r.Action.String() + " " + r.Rule
}

func (w *world) want(said string) {
	w.t.Helper()
	if got := w.said(1); got != said {
		w.t.Errorf("%q, want %q", got, said)
	}
}

func (w *world) of(name string) Status {
	w.t.Helper()
	for _, s := range w.List() {
		if s.Name == name {
			return s
		}
	}
	w.t.Fatalf("there is no plugin %s", name)
	return Status{}
}

// mustRollback, mustSetMode and mustSwap are the commands of the registry, which take effect.
func (w *world) mustRollback(name string, steps int) {
	w.t.Helper()
	if _, err := w.Rollback(w.t.Context(), name, steps); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mustSetMode(name string, mode sidecar.Mode) {
	w.t.Helper()
	if _, err := w.SetMode(w.t.Context(), name, mode); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mustSwap(name string, wasm, signature []byte) {
	w.t.Helper()
	if _, err := w.Swap(w.t.Context(), name, wasm, signature); err != nil {
		w.t.Fatal(err)
	}
}

// wantRefused checks that what lies in the folder was refused, for this reason in one line.
func (w *world) wantRefused(name, reason string) {
	w.t.Helper()
	q := w.of(name).Quarantine
	if q == nil || !strings.Contains(q.Reason, reason) || strings.Contains(q.Reason, "\n") {
		w.t.Errorf("%s: %+v, want a line with %q", name, q, reason)
	}
}

// wantTaken checks that nothing in the folder is refused.
func (w *world) wantTaken(name string) {
	w.t.Helper()
	if q := w.of(name).Quarantine; q != nil {
		w.t.Errorf("%s: %+v", name, q)
	}
}

func item(id byte) *host.Item {
	e := &host.Event{Kind: 1, CreatedAt: now, Content: "hello", Tags: host.Tags{{"t", "nostr"}}}
	e.ID[0], e.PubKey[0] = id, 2
	return &host.Item{Event: e, Source: &host.Source{Addr: netip.MustParseAddr("192.0.2.7")}}
}
