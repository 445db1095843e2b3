package storetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"talon/host"
	"talon/host/wire"
	"talon/internal/testkit"
)

// testFetch asks for what is there, what is not, and more than one piece.
func testFetch(t *testing.T, x Engine) {
	s := open(t, x)
	big := strings.Repeat("x", 300_000)
	var rows []int64
	var want []string
	var events []*host.Event
	for n := range 600 {
		e := Event(n, 1, 1, 1)
		if n%100 < 6 {
			e.Content = big
			e.JSON = e.AppendJSON(nil)
		}
		events = append(events, e)
		want = append([]string{string(e.JSON)}, want...)
	}
	for part := range slices.Chunk(events, 50) {
		for _, out := range Put(t, s, 0, part...) {
			rows = append([]int64{out.Seq}, rows...)
		}
	}
	rows = slices.Insert(rows, 300, 999_999)
	var got []string
	err := s.Fetch(context.Background(), rows, func(row int64, json []byte) error {
		if row == 999_999 {
			t.Error("a row that is not there was fetched")
		}
		got = append(got, string(json))
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %d events, %v; want %d in order", len(got), err, len(want))
	}
	stop := errors.New("stop")
	n := 0
	err = s.Fetch(context.Background(), rows, func(int64, []byte) error { n++; return stop })
	if err != stop || n != 1 {
		t.Errorf("got %v after %d, want %v after 1", err, n, stop)
	}
}

func testLookUps(t *testing.T, x Engine) {
	s, ctx := open(t, x), context.Background()
	e := Event(1, 1, 1, 1, host.Tag{"e", "one"}, host.Tag{"A", "two"}, host.Tag{"t", "three"})
	Put(t, s, 0, e)
	other := Event(2, 1, 1, 1)
	if got, err := s.Get(ctx, e.ID); err != nil || !bytes.Equal(got, e.JSON) {
		t.Errorf("get: got %q, %v", got, err)
	}
	if got, err := s.Get(ctx, other.ID); err != nil || got != nil {
		t.Errorf("get what is not there: got %q, %v", got, err)
	}
	if got, err := s.Missing(ctx, []host.ID{other.ID, e.ID}); err != nil || !slices.Equal(got, []host.ID{other.ID}) {
		t.Errorf("missing: got %v, %v", got, err)
	}
	for value, want := range map[string]bool{"one": true, "two": true, "three": false, "four": false} {
		if got, err := s.Referenced(ctx, value); err != nil || got != want {
			t.Errorf("referenced %q: got %v, %v; want %v", value, got, err, want)
		}
	}
}

// testSeqOfSelection reads while a writer commits: what Seq says was visible is
// selected.
func testSeqOfSelection(t *testing.T, x Engine) {
	s, ctx := open(t, x), context.Background()
	writes := testkit.Sized(60, 200)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range writes {
			Put(t, s, 0, Event(2*n, 1, 1, int64(n)), Event(2*n+1, 1, 7, int64(n)))
		}
	})
	for range 4 {
		wg.Go(func() {
			for last := int64(0); last < 2*int64(writes); {
				sel, err := s.Select(ctx, []host.Filter{{Limit: -1}}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				seqs := slices.Sorted(slices.Values(sel.Rows))
				if len(seqs) > 0 && (seqs[len(seqs)-1] != sel.Seq || int64(len(seqs)) != sel.Seq) {
					t.Errorf("selected %d rows up to %d, seq %d", len(seqs), seqs[len(seqs)-1], sel.Seq)
				}
				if sel.Seq < last {
					t.Errorf("seq %d after %d", sel.Seq, last)
				}
				last = sel.Seq
			}
		})
	}
	wg.Wait()
	Check(t, s)
}

func testContext(t *testing.T, x Engine) {
	s := open(t, x)
	Put(t, s, 0, Event(1, 1, 1, 1))
	why := errors.New("took too long")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	all := []host.Filter{{Limit: 10}}
	for name, err := range map[string]error{
		"select":  func() error { _, err := s.Select(ctx, all, 0); return err }(),
		"count":   func() error { _, err := s.Count(ctx, all, 0); return err }(),
		"fetch":   s.Fetch(ctx, []int64{1}, func(int64, []byte) error { return nil }),
		"authors": s.Authors(ctx, all, 0, func(host.PubKey) {}),
		"scan":    func() error { _, _, err := s.Scan(ctx, all[0], 9, 0, func(int64, host.ID) {}); return err }(),
		"export":  s.Export(ctx, func([]byte) error { return nil }),
	} {
		if !errors.Is(err, why) {
			t.Errorf("%s: got %v, want %v", name, err, why)
		}
	}
}

// testRealEvents stores events as they are found in the world.
func testRealEvents(t *testing.T, x Engine) {
	for _, name := range []string{"events.jsonl", "nip34.jsonl"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../../../shared/data/" + name)
			if err != nil { // the test of a package that is further down
				text, err = os.ReadFile("../../../../shared/data/" + name)
			}
			if err != nil {
				t.Skipf("no real events: %v", err)
			}
			s := open(t, x)
			const now = 1_790_000_000
			var events []*host.Event
			lines := bufio.NewScanner(bytes.NewReader(text))
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				// A line of this file may say more than an event.
				if e, err := wire.ParseEvent(lines.Bytes()); err == nil && e.Kind.Class() != host.Ephemeral {
					events = append(events, e)
				}
			}
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			stored := map[host.ID]*host.Event{}
			for batch := range slices.Chunk(events, 16) {
				for i, out := range Put(t, s, now, batch...) {
					if out.Code == host.Stored {
						stored[batch[i].ID] = batch[i]
					}
					for _, old := range out.Removed {
						delete(stored, old.ID)
					}
				}
			}
			Check(t, s)
			var exported []string
			if err := s.Export(context.Background(), func(json []byte) error { exported = append(exported, string(json)); return nil }); err != nil {
				t.Fatal(err)
			}
			slices.Reverse(exported)
			var all []*host.Event
			for _, e := range stored {
				all = append(all, e)
			}
			if want := Texts(all...); !slices.Equal(exported, want) {
				t.Errorf("exported %d events, want the %d stored in reverse order", len(exported), len(want))
			}
			t.Logf("%d events stored", len(stored))
			for _, e := range all[:min(50, len(all))] {
				f := host.Filter{Authors: []host.PubKey{e.PubKey}, Kinds: []host.Kind{e.Kind}, Limit: 500}
				want := ordered(slices.DeleteFunc(slices.Clone(all), func(x *host.Event) bool { return !f.Matches(x) }))
				if got := Selected(t, s, 0, f); !slices.Equal(got, Texts(want[:min(500, len(want))]...)) {
					t.Errorf("author %s, kind %d: selected %d, want %d", e.PubKey, e.Kind, len(got), len(want))
				}
			}
		})
	}
}
