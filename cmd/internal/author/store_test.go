package author

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
)

func eventLine(n byte, at int64, tags string) string {
	return fmt.Sprintf(`{"id":"%s","pubkey":"%s","created_at":%d,"kind":1,"tags":[%s],"content":"%d","sig":"%s"}`,
		strings.Repeat(fmt.Sprintf("%02x", n), 32), strings.Repeat("01", 32), at, tags, n, strings.Repeat("00", 64))
}

func TestStore(t *testing.T) {
	id := host.ID([]byte(strings.Repeat("\x02", 32)))
	s, err := ReadEvents("facts", strings.NewReader(eventLine(1, 10, `["e","`+id.String()+`"]`)+"\n\n"+eventLine(2, 30, "")+"\n"+eventLine(2, 30, "")+"\n"+eventLine(3, 20, "")))
	if err != nil {
		t.Fatal(err)
	}
	all, _ := s.Query(t.Context(), host.Filter{Limit: 500})
	if len(all) != 3 || !strings.Contains(string(all[0]), `"content":"2"`) || !strings.Contains(string(all[2]), `"content":"1"`) {
		t.Errorf("all: %q", all)
	}
	if some, _ := s.Query(t.Context(), host.Filter{Limit: 1}); len(some) != 1 {
		t.Errorf("one: %q", some)
	}
	if text, _ := s.Get(t.Context(), id); !strings.Contains(string(text), `"content":"2"`) {
		t.Errorf("get: %q", text)
	}
	if text, _ := s.Get(t.Context(), host.ID{}); text != nil {
		t.Errorf("get of what is not there: %q", text)
	}
	if yes, _ := s.Referenced(t.Context(), id.String()); !yes {
		t.Error("it is not referenced")
	}
	if yes, _ := s.Referenced(t.Context(), host.ID{9}.String()); yes {
		t.Error("another is referenced")
	}
	q := question(t, `{"event":{"kind":1},"stored":[{"id":"09","kind":7,"created_at":40}],"held":[{"id":"0a","kind":30617}]}`)
	more := s.with(&q.Vector)
	if list, _ := more.Query(t.Context(), host.Filter{Limit: 500}); len(list) != 4 || !strings.Contains(string(list[0]), `"kind":7`) {
		t.Errorf("with those of the question: %q", list)
	}
	if text, _ := more.Held(t.Context(), host.ID{0x0a}); text == nil {
		t.Error("the held event is not there")
	}
	if list, _ := more.HeldBy(t.Context(), host.Filter{Kinds: []host.Kind{30617}, Limit: 5}); len(list) != 1 {
		t.Errorf("held: %q", list)
	}
	if list, _ := s.HeldBy(t.Context(), host.Filter{Limit: 5}); list != nil {
		t.Errorf("the store has changed: %q", list)
	}
	if _, err := ReadEvents("facts", strings.NewReader("\n{}")); err == nil || !strings.HasPrefix(err.Error(), "facts:2: this is no event: ") {
		t.Errorf("no event: %v", err)
	}
}
