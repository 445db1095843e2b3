package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// fakeFacts answers from memory.
type fakeFacts struct {
	stored     map[host.ID][]byte
	answer     [][]byte
	referenced []string
	err        error
	filters    []host.Filter
}

func (f *fakeFacts) Get(_ context.Context, id host.ID) ([]byte, error) { return f.stored[id], f.err }

func (f *fakeFacts) Query(_ context.Context, filter host.Filter) ([][]byte, error) {
	f.filters = append(f.filters, filter)
	return f.answer, f.err
}

func (f *fakeFacts) Referenced(_ context.Context, s string) (bool, error) {
	return slices.Contains(f.referenced, s), f.err
}

func storedJSON(t testing.TB) []byte {
	t.Helper()
	return item(1, "stored").Event.AppendJSON(nil)
}

// getting is a guest that reads the event whose id is at address 0 and passes.
func getting(calls int) guest {
	n := wasmtest.I32Const
	var code wasmtest.Code
	for range calls {
		code = append(code, wasmtest.Body(n(0), n(scratchAddr), n(1000), wasmtest.Call(0), wasmtest.Drop)...)
	}
	return guest{
		manifest: withCapabilities(abi.CapStoreGet), imports: imported(abi.ImportModule, abi.CapStoreGet, typeGet),
		admit: wasmtest.Body(code, wasmtest.I64Const(0)),
	}
}

func TestUnreadableFactsDecideNothing(t *testing.T) {
	m := mustLoad(t, getting(1).assemble(), nil)
	broken := errors.New("disk on fire")
	if _, err := ask(t, m, item(1, ""), &fakeFacts{err: broken}); !errors.Is(err, broken) || AsFailure(err) != nil {
		t.Errorf("%v, want the store's error", err)
	}
	if _, err := ask(t, m, item(1, ""), nil); !errors.Is(err, errNoFacts) {
		t.Errorf("%v, want that there is no store", err)
	}
	if got, err := ask(t, m, item(1, ""), &fakeFacts{}); err != nil || got != passes {
		t.Errorf("the next decision: %+v, %v; want %+v", got, err, passes)
	}
}

func TestReadsAreCounted(t *testing.T) {
	for calls, want := range map[int]Cause{64: "", 65: CauseReads} {
		_, err := ask(t, mustLoad(t, getting(calls).assemble(), nil), item(1, ""), &fakeFacts{})
		if f := AsFailure(err); f == nil && want != "" || f != nil && f.Cause != want {
			t.Errorf("%d reads: %v; want %q", calls, err, want)
		}
	}
}

func TestBytesReadAreCounted(t *testing.T) {
	m := mustLoad(t, getting(3).assemble(), func(o *Options) { o.Limits.Bytes = 1000 })
	facts := &fakeFacts{stored: map[host.ID][]byte{{}: item(1, strings.Repeat("x", 400)).Event.AppendJSON(nil)}}
	if _, err := ask(t, m, item(1, ""), facts); AsFailure(err) == nil || AsFailure(err).Cause != CauseBytes {
		t.Errorf("%v; want a failure by %s", err, CauseBytes)
	}
}

// TestGoGuestReadsFacts runs a Go policy that uses every host function.
func TestGoGuestReadsFacts(t *testing.T) {
	m := loadGo(t, "host/plugin/guest/testdata/guests/facts", nil)
	parent := item(1, strings.Repeat("parent ", 5000)) // larger than the guest's first buffer
	parent.Event.ID = host.ID{0xab}
	reply := item(1, "reply")
	reply.Event.Tags[0][1] = parent.Event.ID.String()

	facts := &fakeFacts{}
	check := func(name string, it *host.Item, want host.Ruling) {
		t.Helper()
		want.Module = "facts"
		if got, err := ask(t, m, it, facts); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	check("parent is missing", reply, host.Ruling{Action: host.Reject, Rule: "no-parent", Reason: "blocked: the event that this one replies to is not here"})
	facts.stored = map[host.ID][]byte{parent.Event.ID: parent.Event.AppendJSON(nil)}
	check("parent is there", reply, host.Ruling{Action: host.Accept, Rule: "few"})

	for range 3 {
		facts.answer = append(facts.answer, parent.Event.AppendJSON(nil))
	}
	check("author has written enough", reply, host.Ruling{Action: host.Reject, Rule: "many", Reason: "rate-limited: three events are enough"})
	want := host.Filter{Authors: []host.PubKey{reply.Event.PubKey}, Kinds: []host.Kind{1}, Limit: 3}
	got := facts.filters[len(facts.filters)-1]
	if since := got.Since; since == nil || *since != now-3600 {
		t.Errorf("since %v, want %d", since, now-3600)
	}
	got.Since = nil
	if !slices.Equal(got.Authors, want.Authors) || !slices.Equal(got.Kinds, want.Kinds) || got.Limit != want.Limit || got.IDs != nil || got.Until != nil {
		t.Errorf("filter %+v, want %+v", got, want)
	}

	facts.referenced = []string{reply.Event.ID.String()}
	check("is referenced", reply, host.Ruling{Action: host.Accept, Rule: "referenced"})
}

// repoFacts are facts that have a purgatory of their own.
type repoFacts struct {
	*fakeFacts
	fakeHeld
}

// TestHeldFactsAreThoseOfTheDecision: what is read of purgatory is read where it is
// noted with the rest of the decision, and only else from the options.
func TestHeldFactsAreThoseOfTheDecision(t *testing.T) {
	call := hostCall{abi.CapHeldGet, funcType(wasmtest.I32, 3), consts(0, scratchAddr, 1000)}
	m := mustLoad(t, call.guest(1).assemble(), func(o *Options) { o.Held = fakeHeld{{}: []byte("{")} })
	if _, err := ask(t, m, item(1, ""), &fakeFacts{}); err == nil {
		t.Error("the purgatory of the options, which cannot be read, is not asked")
	}
	if _, err := ask(t, m, item(1, ""), repoFacts{&fakeFacts{}, fakeHeld{{}: storedJSON(t)}}); err != nil {
		t.Errorf("the purgatory of the facts is not asked: %v", err)
	}
}

// TestAnswersOfQueriesAreBounded: a module that asks for much gets a part, and the
// answer says so. Nothing that strangers have stored makes it fail.
func TestAnswersOfQueriesAreBounded(t *testing.T) {
	large := item(1, strings.Repeat("x", 100<<10)).Event.AppendJSON(nil)
	small := storedJSON(t)
	filter := string(abi.AppendFilter(nil, &abi.Filter{Limit: 7}))
	for name, test := range map[string]struct {
		stored [][]byte
		want   int
		more   bool
	}{
		"none":           {nil, 0, false},
		"few":            {[][]byte{small, small}, 2, false},
		"as many as may": {[][]byte{small, small, small, small, small, small, small}, 7, true},
		"too many":       {slices.Repeat([][]byte{small}, 8), 7, true},
		"too large":      {slices.Repeat([][]byte{large}, 6), 5, true},
	} {
		var want []byte
		for _, text := range test.stored[:test.want] {
			var err error
			if want, err = (*EventCache)(nil).append(want, text, true, false); err != nil {
				t.Fatal(err)
			}
		}
		if test.more {
			want = abi.AppendMore(want)
		}
		call := hostCall{abi.CapStoreQuery, funcType(wasmtest.I32, 4), consts(messageAddr, int32(len(filter)), scratchAddr, 0)}
		got, _, err := call.resultOf(t, []byte(filter), nil, &fakeFacts{answer: test.stored})
		if err != nil || got != int64(len(want)) {
			t.Errorf("%s: an answer of %d bytes, %v; want %d", name, got, err, len(want))
		}
	}
}

// witness are facts that record what else was asked.
type witness struct {
	fakeFacts
	told []string
}

func (w *witness) Contained(name, member []byte, yes, known bool) {
	w.told = append(w.told, fmt.Sprintf("%s in %s: %v %v", member, name, yes, known))
}

func (w *witness) Used(capability string) { w.told = append(w.told, capability) }

// TestWitness records what a verdict depends on beside facts, each time.
func TestWitness(t *testing.T) {
	git := func(what string, parameters int) hostCall {
		return hostCall{what, funcType(wasmtest.I32, parameters), consts(make([]int32, parameters)...)}
	}
	for _, call := range append(slices.Clone(hostCalls), git(abi.CapGitHas, 4), git(abi.CapGitRef, 6)) {
		want := []string{call.name, call.name}
		switch call.name {
		case abi.CapSetsContains:
			want = []string{"member in authors: true true", "member in authors: true true"}
		case abi.CapMetric, abi.CapStoreGet, abi.CapHeldGet, abi.CapStoreReferenced:
			want = nil
		}
		if call.name == abi.CapSetsContains {
			call.args = consts(messageAddr, 7, messageAddr+7, 6)
		}
		g := call.guest(2)
		if call.name == abi.CapSetsContains {
			g.message = []byte("authorsmember")
		}
		m := mustLoad(t, g.assemble(), func(o *Options) {
			o.State, o.Sets = newState(t), VectorSets{"authors": {"member"}}
		})
		w := &witness{}
		if _, err := ask(t, m, item(1, ""), w); err != nil {
			t.Errorf("%s: %v", call.name, err)
		}
		if !slices.Equal(w.told, want) {
			t.Errorf("%s: told %q, want %q", call.name, w.told, want)
		}
	}
}
