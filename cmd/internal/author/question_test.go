package author

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
	"talon/host/memfacts"
	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
)

func TestParseQuestion(t *testing.T) {
	for _, test := range []struct {
		name, text     string
		clock          Clock
		now            int64
		origin, source string // and the address or relay
	}{
		{"an event", `{"kind": 1, "content": "x", "created_at": 1600000000}`, Clock{}, 1600000000, "", ""},
		{"an event at a time", `{"kind": 1, "created_at": 1600000000}`, Clock{1700000001}, 1700000001, "", ""},
		{"an event without a time", `{"kind": 1}`, Clock{}, 1700000000, "", ""},
		{"a vector", `{"event": {"kind": 1}, "now": 5, "source": {"origin": "sync", "relay": "wss://a"}}`, Clock{7}, 5, "sync", "wss://a"},
		{"strfry", `{"type":"new","event":{"kind":1,"created_at":1600000000},"receivedAt":9,"sourceType":"IP4","sourceInfo":"192.0.2.1"}`, Clock{}, 9, "client", "192.0.2.1"},
		{"strfry, mapped", `{"type":"new","event":{"kind":1},"receivedAt":9,"sourceType":"IP6","sourceInfo":"::ffff:192.0.2.1"}`, Clock{}, 9, "client", "192.0.2.1"},
		{"strfry, no address", `{"type":"new","event":{"kind":1},"receivedAt":9,"sourceType":"IP4","sourceInfo":"?"}`, Clock{}, 9, "client", ""},
		{"strfry's sync", `{"type":"new","event":{"kind":1},"receivedAt":9,"sourceType":"Stream","sourceInfo":"wss://b"}`, Clock{}, 9, "sync", "wss://b"},
		{"strfry's import", `{"type":"new","event":{"kind":1},"receivedAt":9,"sourceType":"Import","sourceInfo":""}`, Clock{}, 9, "import", ""},
	} {
		q, err := test.clock.ParseQuestion("events.jsonl:3", []byte(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		s := q.Vector.Source
		if q.Vector.Now != test.now || s.Origin != test.origin || string(s.Address)+s.Relay != test.source || q.Wants || q.Vector.Event == nil {
			t.Errorf("%s: %+v", test.name, q)
		}
	}
	q := question(t, `{"type":"new","event":{"kind":1},"receivedAt":9,"authed":"`+strings.Repeat("ab", 32)+`"}`)
	if len(q.Vector.Source.Authed) != 1 || q.Vector.Source.Authed[0][31] != 0xab {
		t.Errorf("authed: %+v", q.Vector.Source)
	}
	if q := question(t, `{"function":"connect","open":3,"want":{"action":"reject"},"then":true}`); !q.Wants || !q.Then || q.function().String() != "connect" {
		t.Errorf("connect: %+v", q)
	}
}

func TestParseQuestionRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{`:            "dir/e.jsonl:3: want one JSON object: unexpected end of JSON input",
		`[]`:           "dir/e.jsonl:3: want one JSON object: ",
		`null`:         "dir/e.jsonl:3: want one JSON object: this is null",
		`{"kind":"x"}`: "dir/e.jsonl:3: event.kind is string: want a whole number from 0 to 65535",
		`{"event":{"kind":1},"want":{"action":"rejct"}}`:       `dir/e.jsonl:3: want.action "rejct": want one of pass, accept, `,
		`{"event":{"kind":1},"source":{"origin":"moon"}}`:      `dir/e.jsonl:3: source: origin "moon": want client, import or sync`,
		`{"name":"n","function":"query"}`:                      `dir/e.jsonl:3: vector "n": filters is missing`,
		`{"function":"step"}`:                                  `dir/e.jsonl:3: function "step": want one of admit, query, connect, push`,
		`{"type":"old","event":{"kind":1},"receivedAt":1}`:     `dir/e.jsonl:3: type "old": want new, as strfry writes it`,
		`{"type":"new","event":{"kind":1},"receivedAt":"now"}`: "dir/e.jsonl:3: receivedAt: ",
		`{"event":{"kind":1},"then":1}`:                        "dir/e.jsonl:3: then: want true or false",
		`{"event":{"kind":1},"now":-1}`:                        "dir/e.jsonl:3: now is -1: want unix seconds",
	} {
		q, err := Clock{}.ParseQuestion("dir/e.jsonl:3", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v, %v\nwant %s", text, q, err, want)
		}
	}
}

// TestAbsentID compares the ids of events without one with those of real events, and
// lets a policy judge one that asks for work.
func TestAbsentID(t *testing.T) {
	for _, text := range []string{
		`{"kind": 1, "content": "gm"}`,
		`{"kind": 0, "created_at": 17, "pubkey": "0a", "tags": [["d", "x"], [], ["t", "größe 😀", ""]], "content": "a\"b\\c\n\r\t\b\f\u0001\u001f\u007f\u2028<&>/"}`,
	} {
		q := question(t, text)
		e := guest.VectorEvent(q.Vector.Event)
		if err := e.CheckID(); err != nil {
			t.Errorf("%s: %v: %s", text, err, e.JSON)
		}
	}
	q := question(t, `{"event": {"id": "00", "kind": 1}, "stored": [{"kind": 1}, {"id": "0a", "kind": 1}], "held": [{"kind": 2}]}`)
	v := &q.Vector
	if v.Event.ID != (manifest.Key{}) || v.Stored[1].ID != (manifest.Key{0x0a}) {
		t.Errorf("ids that are given became %x and %x", v.Event.ID, v.Stored[1].ID)
	}
	for _, e := range []*manifest.VectorEvent{&v.Stored[0], &v.Held[0]} {
		if err := guest.VectorEvent(e).CheckID(); err != nil {
			t.Error(err)
		}
	}
	r := running(t, built(t, "plugins/pow", `config = {min_bits = 64, commit = false}`), Options{})
	if a := r.Ask(t.Context(), question(t, `{"kind": 1, "content": "gm"}`)); a.Err != nil || a.Action != host.Reject || a.Rule != "difficulty" {
		t.Errorf("an event without an id and without work: %+v", a)
	}
}

func FuzzParseQuestion(f *testing.F) {
	for _, text := range []string{
		`{"kind":1}`, `null`, `{"event":null}`, `{"event":{"kind":1},"stored":[{"kind":1}],"held":[{}],"sets":{"a":["b"]}}`,
		`{"type":"new","event":{"kind":1},"receivedAt":9,"sourceType":"IP4","sourceInfo":"fe80::1%eth0"}`,
		`{"function":"push","push":{"repo":"30617:` + strings.Repeat("a", 64) + `:x","updates":[{"ref":"refs/heads/a"}]}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := Clock{}.ParseQuestion("file:1", text)
		if err != nil {
			return
		}
		if _, err := q.Vector.Request(); err != nil {
			t.Errorf("%s is taken and cannot be asked: %v", text, err)
		}
		factsOf(new(memfacts.Facts), &q.Vector)
		if q.Vector.Event != nil {
			itemOf(q)
			if line := q.strfry(); strings.Count(string(line), "\n") != 1 {
				t.Errorf("%q is not one line", line)
			}
		}
	})
}

func eventLine(n byte, at int64, tags string) string {
	return fmt.Sprintf(`{"id":"%s","pubkey":"%s","created_at":%d,"kind":1,"tags":[%s],"content":"%d","sig":"%s"}`,
		strings.Repeat(fmt.Sprintf("%02x", n), 32), strings.Repeat("01", 32), at, tags, n, strings.Repeat("00", 64))
}

func TestFacts(t *testing.T) {
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
	more := factsOf(s, &q.Vector)
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
