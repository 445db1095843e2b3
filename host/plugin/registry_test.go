package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
	"talon/host/plugin/sidecar"
	"talon/internal/race"
	"talon/sdk/abi"
)

// TestLife is the whole life of a plugin.
func TestLife(t *testing.T) {
	w := openWorld(t)
	w.want("open accept v1")

	w.change("guard.wasm", rejecting("a").wasm(t)) // dropped
	w.want("guard reject a")

	w.change("guard.toml", []byte(`mode = "shadow"`)) // shadowed
	w.want("open accept v1")
	if got := w.of("guard"); got.Mode != sidecar.Shadow || got.Running.Generation != 2 {
		t.Errorf("%+v", got)
	}

	w.change("guard.toml", []byte(`mode = "enforce"`)) // enforced
	w.want("guard reject a")

	w.change("guard.wasm", rejecting("b").wasm(t)) // replaced
	w.want("guard reject b")

	w.mustRollback("guard", 1) // rolled back
	w.want("guard reject a")
	w.look()
	w.want("guard reject a")
	w.restart()
	w.want("guard reject a")

	w.remove("guard.wasm") // removed
	w.remove("guard.toml")
	w.look()
	w.want("open accept v1")
	w.restart()
	w.want("open accept v1")
	if list := w.List(); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}

// TestOrder checks who is asked first: by place, then by name.
func TestOrder(t *testing.T) {
	w := newWorld(t)
	w.drop("m.wasm", rejecting("m").wasm(t))
	w.drop("z.wasm", accepting("1").wasm(t))
	w.mustOpen()
	w.want("m reject m")
	w.change("a.wasm", rejecting("a").wasm(t))
	w.want("a reject a")
	w.change("a.toml", []byte("place = 60"))
	w.want("m reject m")
	w.change("z.toml", []byte("place = 0"))
	w.want("z accept v1")
}

// TestQuarantine drops what cannot run: what ran goes on, the reason can be read,
// also after a restart.
func TestQuarantine(t *testing.T) {
	w := newWorld(t)
	good := accepting("1").wasm(t)
	w.drop("open.wasm", good)
	w.mustOpen()
	sum := sha256.Sum256([]byte("another module"))
	for _, test := range []struct{ name, file, data, reason string }{
		{"no module", "open.wasm", "hello", "not a WebAssembly module"},
		{"half a module", "open.wasm", string(good[:len(good)/2]), ""},
		{"another pin", "open.toml", `sha256 = "` + hex.EncodeToString(sum[:]) + `"`, "the side-car is for the module with sha256"},
		{"an unknown mode", "open.toml", `mode = "loud"`, "loud"},
		{"an unknown setting", "open.toml", "[config]\nx = 1", "config x = 1"},
		{"a missing set", "open.toml", "[sets.friends]\nfile = \"friends.txt\"", "friends"},
		{"a set that it does not read", "open.toml", "[sets.friends]\nlist = \"30000:" + strings.Repeat("ab", 32) + ":x\"", "the module reads no sets"},
		{"too much fuel", "open.toml", "[budgets]\nfuel = 1_000_000_000_000", "fuel"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.drop(test.file, []byte(test.data))
			for range 2 {
				w.look()
				w.want("open accept v1")
				q := w.of("open").Quarantine
				if q == nil || !strings.Contains(q.Reason, test.reason) || strings.Contains(q.Reason, "\n") {
					t.Errorf("%+v, want a line with %q", q, test.reason)
				}
				w.restart()
			}
			w.drop("open.wasm", good)
			_ = os.Remove(w.file("open.toml"))
			w.look()
			w.wantTaken("open")
			w.want("open accept v1")
			if n := w.of("open").Running.Generation; n != 1 {
				t.Errorf("generation %d, want 1: nothing else has run", n)
			}
		})
	}
}

// TestRollbackOfRefused brings what runs back into the folder, in the place of what
// was refused there.
func TestRollbackOfRefused(t *testing.T) {
	w := newWorld(t)
	one, two := accepting("1").wasm(t), accepting("2").wasm(t)
	w.drop("open.wasm", one)
	w.mustOpen()
	w.change("open.wasm", two)
	w.change("open.wasm", []byte("broken"))
	s, err := w.Rollback(t.Context(), "open", 1)
	if err != nil || s.Quarantine != nil || s.Running.Generation != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	w.want("open accept v2")
	if got, err := os.ReadFile(w.file("open.wasm")); err != nil || string(got) != string(two) {
		t.Errorf("the folder has another module: %v", err)
	}
	w.change("open.wasm", []byte("broken"))
	w.mustRollback("open", 2)
	w.want("open accept v1")
}

// TestStart says what keeps a relay from starting: a plugin without which nobody
// has decided yet.
func TestStart(t *testing.T) {
	w := newWorld(t)
	if err := w.open(); err == nil || !strings.Contains(err.Error(), "no plugin in "+w.o.Dir) {
		t.Errorf("an empty folder: %v", err)
	}
	w.drop("guard.wasm", []byte("broken"))
	w.drop("open.wasm", accepting("1").wasm(t))
	if err := w.open(); err == nil || !strings.Contains(err.Error(), "plugin guard: ") {
		t.Errorf("a broken plugin: %v", err)
	}
	w.remove("guard.wasm")
	w.mustOpen()
	// Dropped while the relay runs it was refused, and the relay went on without.
	w.change("guard.wasm", []byte("broken"))
	w.restart()
	w.want("open accept v1")
	w.wantRefused("guard", "")
	w.close()
	w.drop("guard.wasm", []byte("broken in another way"))
	if err := w.open(); err == nil {
		t.Error("another broken plugin: the relay starts")
	}
}

// askedTurn notes for whom facts are read.
type askedTurn struct{ names []string }

func (a *askedTurn) Wait(_ string, f func()) (waited, parked time.Duration) {
	f()
	return 0, 0
}

func (a *askedTurn) Read(module string, f func()) (waited, parked time.Duration) {
	a.names = append(a.names, module)
	f()
	return 0, 0
}

// TestShadow lets a plugin disagree without effect.
func TestShadow(t *testing.T) {
	w := newWorld(t)
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("guard.wasm", rejecting("no").wasm(t))
	w.drop("guard.toml", []byte(`mode = "shadow"`))
	w.drop("yes.wasm", tiny{version: "1", action: abi.ActionAccept, rule: "yes"}.wasm(t))
	w.drop("yes.toml", []byte(`mode = "shadow"`))
	w.drop("later.wasm", rejecting("later").wasm(t))
	w.drop("later.toml", []byte("mode = \"shadow\"\nplace = 99"))
	w.mustOpen()
	for id := range byte(5) {
		if got := w.said(id); got != "open accept v1" {
			t.Fatal(got)
		}
	}
	guard := w.of("guard")
	if len(guard.Disagreements) != 1 || guard.Disagreements[0] != (Dispute{"reject no", "open accept v1", 5}) {
		t.Errorf("%+v", guard.Disagreements)
	}
	seen := w.Disagreements("guard", 3)
	if len(seen) != 3 || seen[0].Event[:2] != "04" || seen[0].Shadow.Reason != "blocked: no" || seen[0].Chain.Plugin != "open" {
		t.Errorf("%+v", seen)
	}
	if yes := w.of("yes"); len(yes.Disagreements) != 0 || yes.Calls != 5 {
		t.Errorf("who agrees: %+v", yes)
	}
	if later := w.of("later"); later.Calls != 0 {
		t.Errorf("whose turn does not come: %+v", later)
	}
	for name, p := range map[string]tiny{"open": accepting("2"), "guard": rejecting("no"), "yes": {version: "1", action: abi.ActionAccept, rule: "yes"}} {
		p.reads = true
		w.change(name+".wasm", p.wasm(t))
	}
	turn := &askedTurn{}
	facts := host.NewFactReader(&keptFacts{}, nil, turn)
	if _, err := w.Admit(t.Context(), item(5), facts, now); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(turn.names); got != "[open guard yes]" || len(facts.Stored) != 1 {
		t.Errorf("%s read, and the decision rests on %d reads, want that of open", got, len(facts.Stored))
	}
	why, ok := w.Why(item(4).Event.ID)
	if !ok || len(why.Shadow) != 2 || why.Ruling.Plugin != "open" || fmt.Sprint(why.Asked) != "[open]" {
		t.Errorf("%+v, %v", why, ok)
	}
}

func TestWhy(t *testing.T) {
	w := newWorld(t)
	w.o.Decisions = 3
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("a.wasm", tiny{version: "1", action: abi.ActionPass}.wasm(t))
	w.mustOpen()
	for id := range byte(5) {
		w.said(id)
	}
	w.change("a.wasm", rejecting("spam").wasm(t))
	w.said(4) // decided again: one entry
	for id := range byte(5) {
		why, ok := w.Why(item(id).Event.ID)
		switch {
		case id < 2:
			if ok {
				t.Errorf("event %d is remembered, of three", id)
			}
		case !ok:
			t.Errorf("event %d is forgotten", id)
		case id < 4:
			if why.Ruling.Plugin != "open" || why.Ruling.Generation != 1 || why.Ruling.Fuel == 0 || fmt.Sprint(why.Asked) != "[a open]" || why.Source != "client" {
				t.Errorf("event %d: %+v", id, why)
			}
		case why.Ruling.Plugin != "a" || why.Ruling.Generation != 2 || why.Ruling.Reason != "blocked: spam" || fmt.Sprint(why.Asked) != "[a]":
			t.Errorf("event %d: %+v", id, why)
		}
	}
}

// TestFailures checks what becomes of an event when a plugin traps.
func TestFailures(t *testing.T) {
	for _, test := range []struct{ choice, want string }{
		{"", "guard reject failed"},
		{`on-failure = "closed"`, "guard reject failed"},
		{`on-failure = "open"`, "open accept v1"},
		{`on-failure = "bundled"`, "bundled-grasp accept v7"},
	} {
		w := newWorld(t)
		w.o.Bundled = fallback(t, accepting("7"))
		w.drop("open.wasm", accepting("1").wasm(t))
		p := rejecting("x")
		p.trap = true
		w.drop("guard.wasm", p.wasm(t))
		w.drop("guard.toml", []byte(test.choice))
		w.mustOpen()
		if got := w.said(255); got != test.want {
			t.Errorf("%q: %q, want %q", test.choice, got, test.want)
		}
		if got := w.of("guard"); got.Failures != 1 || got.LastFailure == "" {
			t.Errorf("%+v", got)
		}
		w.later(minRefuse)
		w.want("guard reject x")
		w.close()
	}
}

// TestOtherFunctions asks about clients, filters and pushes.
func TestOtherFunctions(t *testing.T) {
	w := openWorld(t)
	ask := func() (list [3]host.Action) {
		for i, f := range []func() (host.Ruling, error){
			func() (host.Ruling, error) { return w.Connect(t.Context(), &host.Connection{}) },
			func() (host.Ruling, error) {
				return w.Query(t.Context(), &host.Query{Client: &host.Client{}, Filters: make([]host.Filter, 1)})
			},
			func() (host.Ruling, error) { return w.Push(t.Context(), &host.Push{Client: &host.Client{}}) },
		} {
			r, err := f()
			if err != nil {
				t.Fatal(err)
			}
			list[i] = r.Action
		}
		return list
	}
	if got := ask(); got != [3]host.Action{host.Pass, host.Pass, host.Pass} {
		t.Errorf("nobody has an opinion: %v", got)
	}
	p := rejecting("no")
	p.functions = []string{"connect", "query", "push"}
	w.change("guard.wasm", p.wasm(t))
	if got := ask(); got != [3]host.Action{host.Reject, host.Reject, host.Reject} {
		t.Errorf("%v", got)
	}
	w.want("open accept v1")
}

// TestSwap replaces a plugin by command.
func TestSwap(t *testing.T) {
	w := openWorld(t)
	two := accepting("2").wasm(t)
	s, err := w.Swap(t.Context(), "open", two, nil)
	if err != nil || s.Running.Generation != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	w.want("open accept v2")
	if got, err := os.ReadFile(w.file("open.wasm")); err != nil || string(got) != string(two) {
		t.Errorf("the folder has another module: %v", err)
	}
	w.look()
	if n := w.of("open").Running.Generation; n != 2 {
		t.Errorf("generation %d after a look at what runs", n)
	}
	if _, err := w.Swap(t.Context(), "open", []byte("nonsense"), nil); err == nil {
		t.Error("nonsense was swapped in")
	}
	if _, err := w.Swap(t.Context(), "../open", two, nil); err == nil {
		t.Error("a path was taken for a name")
	}
	if _, err := w.Swap(t.Context(), "Open", two, nil); err == nil {
		t.Error("a name that differs in case was taken")
	}
	if _, err := w.Swap(t.Context(), "fresh", rejecting("f").wasm(t), nil); err != nil {
		t.Error(err)
	}
	w.want("fresh reject f")

	if _, err := w.SetMode(t.Context(), "fresh", sidecar.Off); err != nil {
		t.Error(err)
	}
	w.want("open accept v2")
	if s := w.of("fresh"); s.Mode != sidecar.Off || s.Running != nil {
		t.Errorf("%+v", s)
	}
	w.restart()
	w.want("open accept v2")
	if _, err := w.SetMode(t.Context(), "fresh", sidecar.Enforce); err != nil {
		t.Error(err)
	}
	w.want("fresh reject f")
	if _, err := w.SetMode(t.Context(), "nobody", sidecar.Off); err == nil {
		t.Error("a mode was set for nobody")
	}
	if _, err := w.Rollback(t.Context(), "fresh", 9); err == nil {
		t.Error("a rollback nine steps back, of fewer")
	}
}

// TestSwapsUnderLoad swaps while many ask: each gets one answer, of one
// generation, and everything that ran before is closed in the end.
func TestSwapsUnderLoad(t *testing.T) {
	w := newWorld(t)
	versions := [][]byte{accepting("1").wasm(t), accepting("2").wasm(t), accepting("3").wasm(t)}
	w.drop("open.wasm", versions[0])
	w.mustOpen()
	var stop atomic.Bool
	var asked atomic.Int64
	var group sync.WaitGroup
	for g := range byte(4) {
		group.Go(func() {
			for !stop.Load() {
				r, err := w.Admit(context.Background(), item(g), nil, now)
				if err != nil || r.Action != host.Accept {
					t.Errorf("%+v, %v", r, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for i := range 60 {
		if _, err := w.Swap(t.Context(), "open", versions[(i+1)%len(versions)], nil); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	group.Wait()
	if asked.Load() == 0 {
		t.Error("nobody was asked")
	}
	w.refs.Lock()
	users := w.slots["open"].running.users
	w.refs.Unlock()
	if users != 1 {
		t.Errorf("the generation that runs has %d users, want the active set alone", users)
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	if race.Detector {
		t.Skip("the race detector allocates")
	}
	w := newWorld(t)
	w.drop("open.wasm", accepting("1").wasm(t))
	w.drop("a.wasm", tiny{version: "1", action: abi.ActionPass}.wasm(t))
	w.mustOpen()
	it, ctx := item(1), t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := w.Admit(ctx, it, nil, now); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDescribe: what the relay says of itself is what the plugins say that decide
// now, in their order.
func TestDescribe(t *testing.T) {
	w := newWorld(t)
	one := accepting("1")
	one.says = abi.About{Grasps: []string{"GRASP-01"}, Criteria: "all repositories"}
	w.drop("one.wasm", one.wasm(t))
	w.drop("open.wasm", accepting("1").wasm(t)) // says nothing
	w.mustOpen()
	defer w.close()
	want := func(list ...host.Description) {
		t.Helper()
		if got := w.Describe(); !reflect.DeepEqual(got, list) {
			t.Errorf("%+v, want %+v", got, list)
		}
	}
	first := host.Description{Grasps: []string{"GRASP-01"}, Criteria: "all repositories"}
	want(first)

	two := rejecting("x")
	two.says = abi.About{Curation: "chosen ones"}
	w.change("two.wasm", two.wasm(t))
	second := host.Description{Curation: "chosen ones"}
	want(second, first)

	w.mustSetMode("one", sidecar.Shadow)
	want(second)
	w.remove("two.wasm")
	w.look()
	want()

	one.says.Grasps = nil
	w.mustSetMode("one", sidecar.Enforce)
	w.mustSwap("one", one.wasm(t), nil)
	want(host.Description{Criteria: "all repositories"})
}
