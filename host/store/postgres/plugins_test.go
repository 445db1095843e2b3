package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"talon/host"
	"talon/host/store/storetest"
)

// TestPlugins: a generation of plugins is yielded to each process once, before it commits
// anything after the agreement, and also where the log does not say what was committed.
func TestPlugins(t *testing.T) {
	url := server.URL(t)
	a, b := opened(t, url, Options{}), opened(t, url, Options{})
	sees := func(s *Store, want string) {
		t.Helper()
		current, next, err := s.Plugins(t.Context())
		if got := fmt.Sprintf("%d %s, %d %s", current.Number, current.Records, next.Number, next.Records); err != nil || got != want {
			t.Errorf("%q (%v), want %q", got, err, want)
		}
	}
	caught := func(s *Store) (list []int64) {
		t.Helper()
		if err := s.CatchUp(func(c host.Commit) { list = append(list, c.Plugins) }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	propose := func(s *Store, base int64, records string, modules map[string][]byte) int64 {
		t.Helper()
		n, err := s.ProposePlugins(t.Context(), "a", base, []byte(records), modules)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	settle := func(s *Store, n int64, refused string, keep ...string) {
		t.Helper()
		if err := s.SettlePlugins(t.Context(), n, refused, keep); err != nil {
			t.Fatal(err)
		}
	}
	sees(a, "0 , 0 ")
	one := propose(a, 0, "one", map[string][]byte{"x": {1}, "y": {}})
	sees(b, "0 , 1 one")
	for node, problem := range map[string]string{"a": "", "b": "no room"} {
		if err := b.AnswerPlugins(t.Context(), one, node, problem); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := a.PluginAnswers(t.Context(), one); err != nil || fmt.Sprint(got) != "map[a: b:no room]" {
		t.Errorf("%v, %v", got, err)
	}
	settle(a, one, "node b: no room")
	sees(b, "0 , 0 ")
	if got := append(caught(a), caught(b)...); got != nil {
		t.Errorf("what is refused is yielded: %d", got)
	}
	two := propose(b, 0, "two", nil)
	three := propose(a, 0, "three", map[string][]byte{"z": {3}})
	if err := b.SettlePlugins(t.Context(), two, "", nil); !errors.Is(err, ErrPluginsChanged) {
		t.Errorf("what another has withdrawn decides: %v", err)
	}
	storetest.Put(t, tested{b}, 0, storetest.Event(1, 1, 1, 1))
	settle(a, three, "", "z", "y")
	settle(a, three, "", "z", "y") // the connection was lost meanwhile
	sees(b, "3 three, 0 ")
	if _, err := b.ProposePlugins(t.Context(), "b", 0, nil, nil); !errors.Is(err, ErrPluginsChanged) {
		t.Errorf("a proposal that rests on what was before: %v", err)
	}
	if wasm, err := b.PluginModule(t.Context(), "z"); err != nil || string(wasm) != "\x03" {
		t.Errorf("%x, %v", wasm, err)
	}
	if _, err := b.PluginModule(t.Context(), "x"); err == nil {
		t.Error("a module that nobody wants is kept")
	}
	var learned []int64
	tx, err := b.BeginAfter(func(c host.Commit) { learned = append(learned, c.Plugins) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil || !slices.Equal(learned, []int64{3}) {
		t.Errorf("a transaction after the agreement has learned %d (%v)", learned, err)
	}
	if got := caught(b); got != nil {
		t.Errorf("yielded again: %d", got)
	}
	if got := caught(a); !slices.Equal(got, []int64{0, 3}) { // after b's event
		t.Errorf("who agrees learns %d", got)
	}

	four := propose(b, three, "four", nil)
	settle(b, four, "")
	for range 2 {
		storetest.Put(t, tested{a}, 0, storetest.Event(2, 1, 1, 1))
		storetest.Put(t, tested{a}, 0, storetest.Event(3, 1, 1, 1))
	}
	if _, err := a.conn.Exec(t.Context(), `DELETE FROM log`); err != nil {
		t.Fatal(err)
	}
	if got := caught(b); len(got) == 0 || got[len(got)-1] != four {
		t.Errorf("after a gap: %d", got)
	}
}
