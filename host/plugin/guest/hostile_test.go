package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/plugin/wasmtest"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// TestHostileDecisions runs modules that misbehave in one way when they decide.
// Each ends in a bounded time, costs that instance, and the next event is
// decided the same way.
func TestHostileDecisions(t *testing.T) {
	grow := wasmtest.Body(wasmtest.I32Const(16), wasmtest.MemoryGrow, wasmtest.Drop)
	call := func(pieces ...wasmtest.Code) wasmtest.Code { return repeat(wasmtest.Body(pieces...)) }
	n := func(v int32) wasmtest.Code { return wasmtest.I32Const(v) }
	for _, test := range []struct {
		name  string
		guest guest
		cause Cause
	}{
		{"traps", guest{admit: wasmtest.Unreachable}, CauseTrap},
		{"loops", guest{admit: wasmtest.Body(forever, wasmtest.Unreachable)}, CauseFuel},
		{"recurses", guest{admit: wasmtest.Body(wasmtest.LocalGet(0), wasmtest.Call(3))}, CauseFuel},
		{"reads outside of its memory", guest{admit: wasmtest.Body(n(-4), wasmtest.I32Load, wasmtest.Drop, wasmtest.I64Const(0))}, CauseTrap},
		{"grows its memory for ever", guest{admit: wasmtest.Body(repeat(grow), wasmtest.Unreachable)}, CauseFuel},
		{"exits", guest{imports: imported(wasiModule, "proc_exit", typeOne), admit: wasmtest.Body(n(0), wasmtest.Call(0), wasmtest.Unreachable)}, CauseExit},
		{"waits", guest{imports: imported(wasiModule, "poll_oneoff", typeQuery), admit: wasmtest.Body(call(n(0), n(0), n(0), n(0), wasmtest.Call(0), wasmtest.Drop), wasmtest.Unreachable)}, CauseHost},

		{"answers outside of its memory", guest{admit: returns(0xfffffff0, 100)}, CauseGarbage},
		{"answers over the end of its memory", guest{admit: returns(4<<16-5, 10)}, CauseGarbage},
		{"answers with 4 GB", guest{admit: returns(0, 0xffffffff)}, CauseOutput},
		{"answers with more than its cap", guest{admit: returns(0, 5000)}, CauseOutput},
		{"answers with garbage", says([]byte{0x0a, 0x7f}), CauseGarbage},
		{"answers with an unknown action", says([]byte{0x08, 0x63}), CauseGarbage},
		{"answers with a huge action", says([]byte{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}), CauseGarbage},
		{"answers in broken UTF-8", says(abi.AppendVerdict(nil, abi.ActionReject, "r", "blocked", "\xff\xfe")), CauseGarbage},

		{"has an event wait for every other", says(awaiting(&abi.Filter{Kinds: []uint32{7}})), CauseGarbage},
		{"has an event wait without conditions", says(awaiting(&abi.Filter{})), CauseGarbage},
		{"has an event wait for what cannot come", says(awaiting(&abi.Filter{Kinds: []uint32{70000}, Authors: [][32]byte{{1}}})), CauseGarbage},
		{"has an event wait for an address", says(awaiting(&abi.Filter{Tags: []abi.TagFilter{{Name: "address", Values: []string{"1:x:y"}}}})), CauseGarbage},
		{"has an event wait for too much", says(awaiting(&abi.Filter{Authors: make([][32]byte, 1001)})), CauseOutput},
		{"has an event wait for a long filter", says(awaiting(&abi.Filter{Tags: []abi.TagFilter{{Name: "t", Values: []string{strings.Repeat("\x01", 1000)}}}})), CauseGarbage},
		{"has an event wait for garbage", says(abi.AppendWake(abi.AppendVerdict(nil, abi.ActionHold, "r", "", ""), []byte{0x0a, 3, 1, 2, 3}, 0)), CauseGarbage},

		{"calls the host for ever", guest{
			manifest: withCapabilities(abi.CapStoreReferenced), imports: imported(abi.ImportModule, abi.CapStoreReferenced, typeTwoI32),
			admit: wasmtest.Body(call(n(0), n(10), wasmtest.Call(0), wasmtest.Drop), wasmtest.Unreachable),
		}, CauseReads},
		{"floods the log", guest{
			manifest: withCapabilities(abi.CapLog), imports: imported(abi.ImportModule, abi.CapLog, typeThree),
			admit: wasmtest.Body(call(n(1), n(0), n(60000), wasmtest.Call(0)), wasmtest.Unreachable),
		}, CauseFuel},
		{"floods its standard error", guest{
			message: []byte("\x00\x00\x00\x00\x00\xff\x00\x00"), imports: imported(wasiModule, "fd_write", typeQuery),
			admit: wasmtest.Body(call(n(2), n(messageAddr), n(1), n(scratchAddr), wasmtest.Call(0), wasmtest.Drop), wasmtest.Unreachable),
		}, CauseBytes},
		{"takes random bytes for ever", guest{
			imports: imported(wasiModule, "random_get", typeTwoI32),
			admit:   wasmtest.Body(call(n(0), n(1<<16), wasmtest.Call(0), wasmtest.Drop), wasmtest.Unreachable),
		}, CauseHost},
		{"gives the host a wild address to read", guest{
			manifest: withCapabilities(abi.CapStoreGet), imports: imported(abi.ImportModule, abi.CapStoreGet, typeGet),
			admit: wasmtest.Body(n(-8), n(0), n(0), wasmtest.Call(0), wasmtest.Drop, wasmtest.I64Const(0)),
		}, CauseHost},
		{"gives the host a wild address to write", guest{
			manifest: withCapabilities(abi.CapStoreGet), imports: imported(abi.ImportModule, abi.CapStoreGet, typeGet),
			admit: wasmtest.Body(n(0), n(-8), n(1<<20), wasmtest.Call(0), wasmtest.Drop, wasmtest.I64Const(0)),
		}, CauseHost},
		{"queries with garbage", guest{
			message: []byte{0x0a, 0x05, 1}, manifest: withCapabilities(abi.CapStoreQuery), imports: imported(abi.ImportModule, abi.CapStoreQuery, typeQuery),
			admit: wasmtest.Body(n(messageAddr), n(3), n(0), n(0), wasmtest.Call(0), wasmtest.Drop, wasmtest.I64Const(0)),
		}, CauseHost},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, _, err := load(t, test.guest.assemble(), nil)
			if err != nil {
				t.Fatal(err)
			}
			facts := &fakeFacts{stored: map[host.ID][]byte{{}: storedJSON(t)}}
			for range 3 {
				start := testkit.CPU()
				got, err := ask(t, m, item(1, ""), facts)
				if f := AsFailure(err); f == nil || f.Cause != test.cause || got != (host.Ruling{}) {
					t.Fatalf("%+v, %v; want a failure by %s", got, err, test.cause)
				}
				if took := testkit.CPU() - start; took > 6*time.Second {
					t.Errorf("a decision took %v", took)
				}
			}
			if n := failures(m, test.cause); n != 3 {
				t.Errorf("%v failures by %s, want 3", n, test.cause)
			}
			// One is made in the place of the last that failed.
			if !m.pool.drain(t.Context()) || m.Instances() != 0 || m.MemoryUsed() != 0 {
				t.Errorf("%d instances with %d bytes are left, want none: one that failed must not be used again", m.Instances(), m.MemoryUsed())
			}
		})
	}
}

// TestOddReasons checks what reaches a client of reasons that are not as they
// should be.
func TestOddReasons(t *testing.T) {
	long := strings.Repeat("é", 700)
	for _, test := range []struct {
		name         string
		action       uint32
		rule, reason string
		want         host.Ruling
	}{
		{"plain", abi.ActionReject, "spam", "blocked: spam", host.Ruling{Action: host.Reject, Rule: "spam", Reason: "blocked: spam"}},
		{"other prefix", abi.ActionReject, "r", "rate-limited: slow down", host.Ruling{Action: host.Reject, Rule: "r", Reason: "rate-limited: slow down"}},
		{"no prefix", abi.ActionReject, "r", "go away", host.Ruling{Action: host.Reject, Rule: "r", Reason: "blocked: go away"}},
		{"unknown prefix", abi.ActionReject, "r", "nope: go away", host.Ruling{Action: host.Reject, Rule: "r", Reason: "blocked: nope: go away"}},
		{"no reason", abi.ActionReject, "r", "", host.Ruling{Action: host.Reject, Rule: "r", Reason: "blocked: refused by policy"}},
		{"no rule", abi.ActionReject, "", "blocked: x", host.Ruling{Action: host.Reject, Rule: "unnamed", Reason: "blocked: x"}},
		{"strange rule", abi.ActionReject, "Größe 1", "blocked: x", host.Ruling{Action: host.Reject, Rule: "unnamed", Reason: "blocked: x"}},
		{"lines and control characters", abi.ActionReject, "r", "blocked: a\r\nb\x00c\x1b[31m\u202e", host.Ruling{Action: host.Reject, Rule: "r", Reason: "blocked: a  b c [31m"}},
		{"too long", abi.ActionReject, "r", "blocked: " + long, host.Ruling{Action: host.Reject, Rule: "r", Reason: "blocked: " + strings.Repeat("é", 507)}},
		{"too long without a prefix", abi.ActionReject, "r", long, host.Ruling{Action: host.Reject, Rule: "r", Reason: "blocked: " + strings.Repeat("é", 507)}},
		{"auth", abi.ActionRequireAuth, "r", "auth-required: log in", host.Ruling{Action: host.RequireAuth, Rule: "r", Reason: "auth-required: log in"}},
		{"auth with another prefix", abi.ActionRequireAuth, "r", "blocked: log in", host.Ruling{Action: host.RequireAuth, Rule: "r", Reason: "auth-required: blocked: log in"}},
		{"hold", abi.ActionHold, "r", "purgatory: wait", host.Ruling{Action: host.Hold, Rule: "r", Reason: "purgatory: wait"}},
		{"accept with a reason", abi.ActionAccept, "r", "blocked: no", host.Ruling{Action: host.Accept, Rule: "r"}},
		{"shadow-reject with a reason", abi.ActionShadowReject, "r", "blocked: no", host.Ruling{Action: host.ShadowReject, Rule: "r"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := mustLoad(t, says(abi.AppendVerdict(nil, test.action, test.rule, "", test.reason)).assemble(), nil)
			test.want.Module = "guest"
			if got := admit(t, m, item(1, "")); got != test.want {
				t.Errorf("%+v\nwant %+v", got, test.want)
			}
		})
	}
}

// TestRetry asks for an event to be tried again: a minute at most, and only of an event
// that is refused.
func TestRetry(t *testing.T) {
	for _, test := range []struct {
		action, seconds uint32
		want            time.Duration
	}{
		{abi.ActionReject, 0, 0},
		{abi.ActionReject, 7, 7 * time.Second},
		{abi.ActionReject, 60, time.Minute},
		{abi.ActionReject, 1<<32 - 1, time.Minute},
		{abi.ActionAccept, 7, 0},
		{abi.ActionHold, 7, 0},
		{abi.ActionShadowReject, 7, 0},
	} {
		answer := abi.AppendRetry(abi.AppendVerdict(nil, test.action, "r", "", ""), test.seconds)
		m := mustLoad(t, says(answer).assemble(), nil)
		if got := admit(t, m, item(1, "")).Retry; got != test.want {
			t.Errorf("%s for %d seconds: %s, want %s", actions[test.action], test.seconds, got, test.want)
		}
	}
}

// TestRulesAreBounded runs a guest whose rule is a part of the event, so that
// clients choose it, in several generations of a plugin.
func TestRulesAreBounded(t *testing.T) {
	// The first eight bytes of the id become the rule: hex would be too easy, so
	// the test writes letters there.
	verdict := abi.AppendVerdict(nil, abi.ActionReject, "........", "blocked", "x")
	ruleAt := int32(messageAddr + strings.Index(string(verdict), "........"))
	const idAt = bufferAddr + 2 + 1 + 2 // keys and lengths of request.event and event.id
	wasm := guest{
		message: verdict,
		admit: wasmtest.Body(
			wasmtest.I32Const(ruleAt), wasmtest.I32Const(idAt), wasmtest.I32Const(8), wasmtest.MemoryCopy,
			returns(messageAddr, uint32(len(verdict)))),
	}.assemble()
	metrics := NewMetrics()
	rules := make(map[string]int)
	for generation := range 4 {
		m := mustLoad(t, wasm, func(o *Options) { o.Metrics = metrics })
		for i := range 250 {
			it := item(1, "")
			copy(it.Event.ID[:], fmt.Sprintf("rule%d%03d", generation, i))
			rules[admit(t, m, it).Rule]++
		}
	}
	if len(rules) != maxRules+1 || rules[otherRule] != 1000-maxRules {
		t.Errorf("%d different rules, %d of them %q; want %d and %d", len(rules), rules[otherRule], otherRule, maxRules+1, 1000-maxRules)
	}
	if n := testutil.CollectAndCount(metrics.verdicts); n != maxRules+1 {
		t.Errorf("%d series of verdicts, want %d", n, maxRules+1)
	}
}

// trapsOn255 is a guest that traps if the first byte of the event's id is 255, and
// accepts all others.
func trapsOn255() guest {
	const idAt = bufferAddr + 2 + 1 + 2
	accept := abi.AppendVerdict(nil, abi.ActionAccept, "fine", "", "")
	return guest{
		message: accept,
		admit: wasmtest.Body(
			wasmtest.I32Const(idAt), wasmtest.I32Load8U, wasmtest.I32Const(255), wasmtest.I32Eq,
			wasmtest.If(wasmtest.Void), wasmtest.Unreachable, wasmtest.End,
			returns(messageAddr, uint32(len(accept)))),
	}
}

func TestRecovery(t *testing.T) {
	m := mustLoad(t, trapsOn255().assemble(), nil)
	good, bad := item(1, ""), item(1, "")
	bad.Event.ID[0] = 255
	for range 20 {
		if _, err := ask(t, m, bad, nil); AsFailure(err) == nil || AsFailure(err).Cause != CauseTrap {
			t.Fatalf("%v, want a trap", err)
		}
		if got := admit(t, m, good); got.Action != host.Accept {
			t.Fatalf("after a trap: %+v, want accept", got)
		}
	}
}

func TestWaitingIsBounded(t *testing.T) {
	m := mustLoad(t, guest{}.assemble(), func(o *Options) { o.Instances = 1 })
	inst, err := m.pool.get(t.Context(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	defer m.pool.put(inst)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := m.Rule(ctx, Admit, nil, nil, now, "client"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that the context is done", err)
	}
}

// TestActionsThatMakeNoSense answers a connection with what is only for events.
func TestActionsThatMakeNoSense(t *testing.T) {
	for action, allowed := range map[uint32]bool{
		abi.ActionAccept: true, abi.ActionReject: true, abi.ActionHold: false, abi.ActionShadowReject: false, abi.ActionRequireAuth: false,
	} {
		g := says(abi.AppendVerdict(nil, action, "r", "", ""))
		g.manifest = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy"], "functions": ["connect"]}`
		g.change = rename(abi.ExportAdmit, abi.ExportConnect)
		m := mustLoad(t, g.assemble(), nil)
		var q Request
		_, _, err := m.Rule(t.Context(), Connect, q.Connect(&host.Connection{}, now), nil, now, "client")
		if f := AsFailure(err); allowed && err != nil || !allowed && (f == nil || f.Cause != CauseGarbage) {
			t.Errorf("action %d: %v, allowed %v", action, err, allowed)
		}
		if _, _, err := m.Rule(t.Context(), Admit, nil, nil, now, "client"); err == nil || AsFailure(err) != nil {
			t.Errorf("a function that the module does not have: %v, want an error that is no failure", err)
		}
	}
}

// awaiting is a verdict that has an event wait for another.
func awaiting(f *abi.Filter) []byte {
	return abi.AppendWake(abi.AppendVerdict(nil, abi.ActionHold, "r", "purgatory", "waits"), abi.AppendFilter(nil, f), 60)
}

// TestWakeIsCanonical reads a verdict that has an event wait for another.
func TestWakeIsCanonical(t *testing.T) {
	m, _, err := load(t, says(awaiting(&abi.Filter{
		Authors: [][32]byte{{2}, {1}, {2}}, Kinds: []uint32{7, 1}, Tags: []abi.TagFilter{{Name: "p", Values: []string{"b", "a"}}}, Limit: 9, Header: true,
	})).assemble(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ask(t, m, item(1, ""), &fakeFacts{})
	want := `{"authors":["` + host.PubKey{1}.String() + `","` + host.PubKey{2}.String() + `"],"kinds":[1,7],"#p":["a","b"]}`
	if err != nil || got.Action != host.Hold || got.Wake != want || got.Wait != 60 {
		t.Errorf("got %+v, %v, want %s", got, err, want)
	}
}
