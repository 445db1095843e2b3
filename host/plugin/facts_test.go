package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/plugin/plugintest"
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
	c, _, err := openGuest(t, getting(1).assemble(), nil)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("disk on fire")
	if _, err := c.Admit(t.Context(), item(1, ""), &fakeFacts{err: broken}, now); !errors.Is(err, broken) {
		t.Errorf("%v, want the store's error", err)
	}
	if got, err := c.Admit(t.Context(), item(1, ""), &fakeFacts{}, now); err != nil || got != noneAccepts {
		t.Errorf("the next decision: %+v, %v; want %+v", got, err, noneAccepts)
	}
}

func TestReadsAreCounted(t *testing.T) {
	for _, test := range []struct {
		calls int
		want  host.Ruling
	}{{64, noneAccepts}, {65, failedRuling}} {
		c, _, err := openGuest(t, getting(test.calls).assemble(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Admit(t.Context(), item(1, ""), &fakeFacts{}, now); err != nil || got != test.want {
			t.Errorf("%d reads: %+v, %v; want %+v", test.calls, got, err, test.want)
		}
	}
}

func TestBytesReadAreCounted(t *testing.T) {
	c, _, err := openGuest(t, getting(3).assemble(), func(o *Options) { o.Limits.StoreBytes = 1000 })
	if err != nil {
		t.Fatal(err)
	}
	facts := &fakeFacts{stored: map[host.ID][]byte{{}: item(1, strings.Repeat("x", 400)).Event.AppendJSON(nil)}}
	if got, err := c.Admit(t.Context(), item(1, ""), facts, now); err != nil || got != failedRuling {
		t.Errorf("%+v, %v; want %+v", got, err, failedRuling)
	}
}

// TestGoGuestReadsFacts runs a Go policy that uses every host function.
func TestGoGuestReadsFacts(t *testing.T) {
	c := openChain(t, Options{
		Dir: plugintest.Build(t, "host/plugin/testdata/guests/facts"), Chain: []string{"facts"},
	})
	parent := item(1, strings.Repeat("parent ", 5000)) // larger than the guest's first buffer
	parent.Event.ID = host.ID{0xab}
	reply := item(1, "reply")
	reply.Event.Tags[0][1] = parent.Event.ID.String()

	facts := &fakeFacts{}
	check := func(name string, it *host.Item, want host.Ruling) {
		t.Helper()
		want.Module = "facts"
		if got, err := c.Admit(t.Context(), it, facts, now); err != nil || got != want {
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
