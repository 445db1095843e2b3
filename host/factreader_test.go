package host_test

import (
	"context"
	"testing"

	"talon/host"
)

// oneFact is a store and a purgatory whose answer is always the same text. It notes the filter of
// the last query.
type oneFact struct{ last host.Filter }

var text = []byte("text")

func (f *oneFact) Get(context.Context, host.ID) ([]byte, error) { return text, nil }

func (f *oneFact) Query(_ context.Context, by host.Filter) ([][]byte, error) {
	f.last = by
	return [][]byte{text}, nil
}

func (f *oneFact) Referenced(context.Context, string) (bool, error) { return true, nil }

func (f *oneFact) Held(context.Context, host.ID) ([]byte, error) { return text, nil }

func (f *oneFact) HeldBy(ctx context.Context, by host.Filter) ([][]byte, error) {
	return f.Query(ctx, by)
}

func readAll(t *testing.T, r *host.FactReader) {
	t.Helper()
	ctx := t.Context()
	_, _ = r.Get(ctx, host.ID{1})
	_, _ = r.Query(ctx, host.Filter{Kinds: []host.Kind{1}, Header: true})
	_, _ = r.Referenced(ctx, "name")
	_, _ = r.Held(ctx, host.ID{1})
	_, _ = r.HeldBy(ctx, host.Filter{Kinds: []host.Kind{1}, Header: true})
}

// TestFactReaderNotesReads: each read is noted, also one that finds nothing where nothing can be
// held. A fork notes its own.
func TestFactReaderNotesReads(t *testing.T) {
	facts := &oneFact{}
	for _, held := range []host.HeldFacts{facts, nil} {
		r := host.NewFactReader(facts, held, nil)
		readAll(t, r)
		stored := 2 + len(host.ReferenceTags)
		readAll(t, r.Fork())
		if len(r.Stored) != stored || len(r.Reads.Held) != 2 {
			t.Errorf("%d reads of the store and %d of purgatory are noted, want %d and 2", len(r.Stored), len(r.Reads.Held), stored)
		}
	}
	if !facts.last.Header {
		t.Error("a header was asked for, and a whole event is read")
	}
}

// TestFactReaderKeepsAnswers: what modules are answered is kept if it is asked for, with whole
// events, and not what the host reads for itself.
func TestFactReaderKeepsAnswers(t *testing.T) {
	facts := &oneFact{}
	r := host.NewFactReader(facts, facts, nil)
	r.KeepAnswers()
	readAll(t, r)
	if list, _ := r.Answers(); len(list) != 0 {
		t.Errorf("%d answers to the host are kept", len(list))
	}
	r.Asking("guard")
	readAll(t, r)
	r.Contained([]byte("set"), []byte("member"), true, true)
	r.Contained([]byte("unknown"), []byte("member"), false, false)
	r.Used("git.has")
	list, all := r.Answers()
	if len(list) != 7 || !all || facts.last.Header {
		t.Fatalf("%d answers are kept, want 7 with whole events", len(list))
	}
	for _, a := range list {
		if a.Module != "guard" {
			t.Errorf("an answer to %q", a.Module)
		}
	}
	for range 20_000 {
		r.Used("git.has")
	}
	if list, all := r.Answers(); all || len(list) > 20_000 {
		t.Errorf("%d answers are kept, all: %v", len(list), all)
	}
}
