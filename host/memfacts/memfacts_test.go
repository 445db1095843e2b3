package memfacts

import (
	"strings"
	"testing"

	"talon/host"
)

func event(id byte, at int64, tags ...host.Tag) *host.Event {
	e := &host.Event{ID: host.ID{id}, CreatedAt: at, Kind: 1, Tags: tags, Content: "text"}
	e.JSON = e.AppendJSON(nil)
	return e
}

// Facts answer as a store does: newest first, by limit, with headers.
func TestFacts(t *testing.T) {
	ctx := t.Context()
	old, first, second := event(1, 10), event(2, 20, host.Tag{"e", "x"}, host.Tag{"p", "y"}), event(3, 20)
	f := New([]*host.Event{old, second, first, old}, []*host.Event{event(4, 5)})
	texts := func(found [][]byte, _ error) string {
		var ids []string
		for _, text := range found {
			id := string(text[len(`{"id":"0`)])
			if !strings.Contains(string(text), `"content":"text"`) {
				id += " header"
			}
			ids = append(ids, id)
		}
		return strings.Join(ids, ", ")
	}
	for _, tt := range []struct{ name, got, want string }{
		{"all", texts(f.Query(ctx, host.Filter{Limit: -1})), "2, 3, 1"},
		{"headers of two", texts(f.Query(ctx, host.Filter{Limit: 2, Header: true})), "2 header, 3 header"},
		{"limit 0", texts(f.Query(ctx, host.Filter{})), ""},
		{"held", texts(f.HeldBy(ctx, host.Filter{Limit: -1})), "4"},
		{"with others", texts(f.With([]*host.Event{event(5, 15)}, nil).Query(ctx, host.Filter{Limit: -1})), "2, 3, 5, 1"},
		{"none", texts(new(Facts).Query(ctx, host.Filter{Limit: -1})), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, tt.got, tt.want)
		}
	}
	for id, want := range map[host.ID]string{{1}: string(old.JSON), {9}: ""} {
		if got, _ := f.Get(ctx, id); string(got) != want {
			t.Errorf("%x: %s", id[:1], got)
		}
	}
	if got, _ := f.Held(ctx, host.ID{4}); got == nil {
		t.Error("a held event is not found by its id")
	}
	for name, want := range map[string]bool{"x": true, "y": false} {
		if got, _ := f.Referenced(ctx, name); got != want {
			t.Errorf("referenced %s: %v", name, got)
		}
	}
}
