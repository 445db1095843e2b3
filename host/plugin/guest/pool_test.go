package guest

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// blockedFacts answer when release is closed.
type blockedFacts struct {
	*fakeFacts
	reads   chan struct{} // receives for each read
	release chan struct{} // closed to answer
	waits   func(func())
}

func (f *blockedFacts) Get(ctx context.Context, id host.ID) ([]byte, error) {
	f.reads <- struct{}{}
	<-f.release
	return nil, nil
}

func (f *blockedFacts) Asking(string) {}

func (f *blockedFacts) Wait(g func()) { f.waits(g) }

// TestPoolWaits lets more decisions wait for the store than there are processors, and
// one more: it waits for an instance, outside of those who decide. What is more than
// processors need is closed later.
func TestPoolWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustLoad(t, getting(1).assemble(), func(o *Options) { o.Waits, o.Budgets.Time, o.Clock = 3, time.Second, time.Now })
		facts := &blockedFacts{reads: make(chan struct{}, 100), release: make(chan struct{})}
		var mu sync.Mutex
		waiting := 0
		facts.waits = func(f func()) {
			mu.Lock()
			waiting++
			mu.Unlock()
			f()
		}
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				var q Request
				if _, _, err := m.Rule(t.Context(), Admit, q.Admit(item(1, ""), now), facts, now, "client"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if len(facts.reads) != 5 || m.Instances() != 5 || waiting != 1 {
			t.Errorf("%d reads, %d instances, %d wait for one; want 5, 5, 1", len(facts.reads), m.Instances(), waiting)
		}
		close(facts.release)
		all.Wait()
		if m.Instances() != 5 {
			t.Errorf("%d instances, want 5", m.Instances())
		}
		time.Sleep(2 * surplusTime)
		synctest.Wait()
		if m.Instances() != 2 {
			t.Errorf("%d instances after a while, want 2", m.Instances())
		}
	})
}

// TestPoolIsBusy has as many wait for an instance as may, and one more.
func TestPoolIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 1, func(*instance) {}, sinceBegan)
		if _, err := p.get(t.Context(), atOnce); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range maxQueue {
			all.Go(func() { _, _ = p.get(ctx, atOnce) })
		}
		synctest.Wait()
		if _, err := p.get(ctx, atOnce); err != errBusy {
			t.Errorf("got %v", err)
		}
		cancel()
		all.Wait()
		p.giveUp()
		if _, err := p.get(t.Context(), atOnce); err != nil {
			t.Error(err)
		}
	})
}

// TestPoolWaitEnds ends the wait for an instance by its context.
func TestPoolWaitEnds(t *testing.T) {
	m := mustLoad(t, guest{}.assemble(), func(o *Options) { o.Instances = 1 })
	inst, err := m.pool.get(t.Context(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.pool.get(ctx, atOnce); err == nil {
		t.Error("an instance for two")
	}
	m.pool.put(inst)
	if got := admit(t, m, item(1, "")); got != passes {
		t.Errorf("%+v, want %+v", got, passes)
	}
}

// growing is a guest that grows its memory by a page at a time, as long as it can, and
// writes to each.
func growing() guest {
	return guest{admit: wasmtest.Body(
		wasmtest.Block(wasmtest.Void),
		wasmtest.Loop(wasmtest.Void),
		wasmtest.I32Const(1), wasmtest.MemoryGrow, wasmtest.I32Const(-1), wasmtest.I32Eq, wasmtest.BrIf(1),
		wasmtest.MemorySize, wasmtest.I32Const(1<<16), wasmtest.I32Mul, wasmtest.I32Const(4), wasmtest.I32Sub, wasmtest.I32Const(7), wasmtest.I32Store,
		wasmtest.Br(0), wasmtest.End, wasmtest.End,
		wasmtest.I64Const(0))}
}

// TestMemoryGrowsInPlace fills the memory of an instance page by page: the addresses
// stay, the host allocates nothing, and closing gives all of it back.
func TestMemoryGrowsInPlace(t *testing.T) {
	const maximum = 64 << 20
	m := mustLoad(t, growing().assemble(), func(o *Options) { o.Budgets.Memory, o.Budgets.Fuel = maximum, 20_000_000 })
	inst, err := m.pool.get(t.Context(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	before := &inst.own.space[0]
	inst.call.begin(t.Context(), nil, now, 0)
	if _, fuel, err := inst.ask(Admit, nil); err != nil || fuel < (maximum-4<<16)/8 {
		t.Errorf("%v after %d fuel; want that growing costs as much as filling", err, fuel)
	}
	inst.call.end()
	b, _ := inst.memory.Read(maximum-4, 4)
	if size := inst.memory.Size(); size != maximum || &inst.own.space[0] != before || b[0] != 7 {
		t.Errorf("%d bytes of memory, the last page has %v; want %d at the same address", size, b, maximum)
	}
	m.pool.put(inst)
	if got := admit(t, m, item(1, "")); got != passes {
		t.Errorf("a full memory: %+v, want %+v", got, passes)
	}
	fuelOf := mustLoad(t, growing().assemble(), func(o *Options) { o.Budgets.Memory, o.Limits.Memory = maximum, maximum })
	if _, err := ask(t, fuelOf, item(1, ""), nil); AsFailure(err) == nil || AsFailure(err).Cause != CauseFuel {
		t.Errorf("with the default budget: %v, want that fuel ends it", err)
	}
}

// TestMemoryIsGivenBack makes and closes instances: what is mapped does not add up.
func TestMemoryIsGivenBack(t *testing.T) {
	mapped := func() int {
		text, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip("this system does not say what is mapped")
		}
		return strings.Count(string(text), "\n")
	}
	m := mustLoad(t, trapsOn255().assemble(), func(o *Options) { o.Log = nil })
	bad := item(1, "")
	bad.Event.ID[0] = 255
	round := func() {
		for range 200 {
			if _, err := ask(t, m, bad, nil); AsFailure(err) == nil {
				t.Fatal(err)
			}
		}
	}
	round()
	first := mapped()
	round()
	if now := mapped(); now > first+100 {
		t.Errorf("%d mappings, and %d after 200 instances more", first, now)
	}
}

// idleGuest passes everything, and says something about the relay.
func idleGuest() guest {
	message := abi.AppendConfigured(nil, &abi.Configured{Idle: []string{"admit"}, About: abi.About{Criteria: "every event"}})
	return guest{message: message, configure: returns(messageAddr, uint32(len(message)))}
}

// startIdle loads a module and tests it, with a new cache.
func startIdle(t *testing.T, wasm []byte) (*Module, Options) {
	t.Helper()
	o := Options{Name: "guest", CacheDir: t.TempDir()}
	m, err := Load(t.Context(), wasm, o)
	if err == nil {
		err = errors.Join(m.Close(context.Background()), SelfTest(t.Context(), wasm, o))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, o
}

// withoutCode removes what is compiled of a module, so that nothing can run it.
func withoutCode(t *testing.T, wasm []byte, o Options) Options {
	t.Helper()
	dir := codeDir(o.CacheDir, sha256.Sum256(wasm))
	if err := os.RemoveAll(filepath.Join(dir, codeFolder)); err != nil {
		t.Fatal(err)
	}
	o.Elsewhere = func(context.Context, []byte) error { return errAsked }
	return o
}

// TestIdleIsKept starts again with a module that has nothing to decide: it is not run to
// say so again.
func TestIdleIsKept(t *testing.T) {
	g := idleGuest()
	g.manifest, g.imports = withCapabilities(abi.CapLog), imported(abi.ImportModule, abi.CapLog, typeExtra)
	g.change = func(m *wasmtest.Module) { m.Types = append(m.Types, wasmtest.Type{Params: params(3)}) }
	wasm := g.assemble()
	first, o := startIdle(t, wasm)
	m, err := Load(t.Context(), wasm, withoutCode(t, wasm, o))
	if err != nil {
		t.Fatal(err)
	}
	if m.Instances() != 0 || m.Calls(Admit) || !m.Tested() || m.Code() == "" {
		t.Errorf("%d instances, admit is called: %v, tested: %v, code in %q", m.Instances(), m.Calls(Admit), m.Tested(), m.Code())
	}
	if !reflect.DeepEqual(m.About(), first.About()) || !reflect.DeepEqual(m.Imports(), first.Imports()) || m.About().Criteria != "every event" {
		t.Errorf("it says %+v and imports %q, and before %+v, %q", m.About(), m.Imports(), first.About(), first.Imports())
	}
	if err := errors.Join(m.Close(context.Background()), m.Close(context.Background())); err != nil {
		t.Error(err)
	}
}

// TestIdleIsAskedAgain starts with modules that may say something else, or must not run.
func TestIdleIsAskedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		guest  func(g *guest)
		change func(o *Options, dir string) error
	}{
		"another address": {change: func(o *Options, _ string) error { o.Service.Domain = "relay.example.com"; return nil }},
		"another budget":  {change: func(o *Options, _ string) error { o.Budgets.Fuel = 1000; return nil }},
		"not tested":      {change: func(_ *Options, dir string) error { return os.Remove(filepath.Join(dir, stampFile)) }},
		"a damaged file": {change: func(_ *Options, dir string) error {
			return os.WriteFile(filepath.Join(dir, idleFile), []byte(`[{"key":"`), 0o600)
		}},
		"nothing is kept": {change: func(_ *Options, dir string) error { return os.Remove(filepath.Join(dir, idleFile)) }},
		"an import denied": {func(g *guest) {
			g.manifest, g.imports = withCapabilities(abi.CapLog), imported(abi.ImportModule, abi.CapLog, typeExtra)
			g.change = func(m *wasmtest.Module) { m.Types = append(m.Types, wasmtest.Type{Params: params(3)}) }
		}, func(o *Options, _ string) error { o.Grants = func(string) bool { return false }; return nil }},
		"it asked the host": {func(g *guest) {
			h := hostCalls[2] // whether a set has a member
			g.manifest, g.imports = withCapabilities(h.name), imported(abi.ImportModule, h.name, typeExtra)
			g.change = func(m *wasmtest.Module) { m.Types = append(m.Types, h.typ) }
			g.configure = wasmtest.Body(h.args, wasmtest.Call(0), wasmtest.Drop, g.configure)
		}, func(*Options, string) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			g := idleGuest()
			if test.guest != nil {
				test.guest(&g)
			}
			wasm := g.assemble()
			_, o := startIdle(t, wasm)
			o = withoutCode(t, wasm, o)
			if err := test.change(&o, codeDir(o.CacheDir, sha256.Sum256(wasm))); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(t.Context(), wasm, o); !errors.Is(err, errAsked) {
				t.Errorf("%v, want that it is loaded", err)
			}
		})
	}
}
