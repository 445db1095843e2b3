package guest

import (
	"bytes"
	"errors"
	"testing"

	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// counting is a strategy that counts its calls at messageAddr and answers with
// the count, or traps after two.
func counting() guest {
	const addr = messageAddr
	g := serving("strategy", Step, wasmtest.Body(
		consts(addr, addr), wasmtest.I32Load, wasmtest.I32Const(1), wasmtest.I32Add, wasmtest.I32Store,
		consts(3, addr), wasmtest.I32Load, wasmtest.I32LtU, wasmtest.If(wasmtest.Void), wasmtest.Unreachable, wasmtest.End,
		returns(addr, 4)))
	return g
}

func TestReducersKeepTheirOwnState(t *testing.T) {
	m := mustLoad(t, counting().assemble(), nil)
	one, err := m.NewReducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two, err := m.NewReducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.Instances() != 2 {
		t.Errorf("%d instances, want 2", m.Instances())
	}
	step := func(r *Reducer, want byte) {
		t.Helper()
		answer, fuel, err := r.Call(t.Context(), Step, []byte("request"), now)
		if err != nil || !bytes.Equal(answer, []byte{want, 0, 0, 0}) || fuel <= 0 {
			t.Errorf("%x for %d fuel, %v; want %d", answer, fuel, err, want)
		}
	}
	step(one, 1)
	step(one, 2)
	step(two, 1)
	step(one, 3)
	if _, _, err := one.Call(t.Context(), Step, nil, now); AsFailure(err) == nil || AsFailure(err).Cause != CauseTrap {
		t.Errorf("%v, want a trap", err)
	}
	if _, _, err := one.Call(t.Context(), Step, nil, now); !errors.Is(err, errEnded) {
		t.Errorf("%v, want that a reducer that failed has ended", err)
	}
	step(two, 2)
	two.Close()
	two.Close()
	if _, _, err := two.Call(t.Context(), Step, nil, now); !errors.Is(err, errEnded) {
		t.Errorf("%v, want that a reducer that was closed has ended", err)
	}
	if m.Instances() != 0 || failures(m, CauseTrap) != 1 {
		t.Errorf("%d instances and %v traps, want none and one", m.Instances(), failures(m, CauseTrap))
	}
	if _, _, err := two.Call(t.Context(), Admit, nil, now); err == nil || AsFailure(err) != nil {
		t.Errorf("a policy function of a reducer: %v, want an error that is no failure", err)
	}
	if _, _, err := m.Rule(t.Context(), Step, nil, nil, now, "client"); err == nil || AsFailure(err) != nil {
		t.Errorf("a verdict of a strategy: %v, want an error that is no failure", err)
	}
}

// TestReducersGoOnWithoutFacts reads a repository that cannot be read: the module
// gets Unavailable, and its answer stands.
func TestReducersGoOnWithoutFacts(t *testing.T) {
	g := serving("strategy", Step, wasmtest.Body(
		consts(resultAddr, messageAddr, int32(len(repo.String())), messageAddr+100, 40), wasmtest.Call(0), wasmtest.I32Store,
		returns(resultAddr, 4)))
	g.manifest = `{"talon_manifest": 1, "name": "guest", "worlds": ["strategy"], "capabilities": ["git.has"]}`
	g.imports = imported(abi.ImportModule, abi.CapGitHas, typeQuery)
	g.message = append(append([]byte(repo.String()), make([]byte, 100-len(repo.String()))...), object...)
	m := mustLoad(t, g.assemble(), func(o *Options) { o.Git = fakeGit{errors.New("no disk")} })
	r, err := m.NewReducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if answer, _, err := r.Call(t.Context(), Step, nil, now); err != nil || !bytes.Equal(answer, []byte{0xfe, 0xff, 0xff, 0xff}) {
		t.Errorf("%x, %v; want that git.has is unavailable", answer, err)
	}
}

// TestReducersMayAnswerMore compares the default budgets of the worlds.
func TestReducersMayAnswerMore(t *testing.T) {
	large := returns(0, 100_000)
	m := mustLoad(t, serving("strategy", Step, large).assemble(), nil)
	r, err := m.NewReducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if answer, _, err := r.Call(t.Context(), Step, nil, now); err != nil || len(answer) != 100_000 {
		t.Errorf("%d bytes, %v; want 100,000", len(answer), err)
	}
	if m.Fuel() != defaultReducerFuel {
		t.Errorf("fuel %d, want %d", m.Fuel(), defaultReducerFuel)
	}
	if _, err := ask(t, mustLoad(t, guest{admit: large}.assemble(), nil), item(1, ""), nil); AsFailure(err) == nil || AsFailure(err).Cause != CauseOutput {
		t.Errorf("a verdict of 100,000 bytes: %v, want a failure by %s", err, CauseOutput)
	}
}
