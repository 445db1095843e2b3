package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
)

// withVector is a manifest of all functions with the vector v.
func withVector(v string) string {
	return `{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "functions": ["admit", "query", "connect", "push"],
		"config": [{"key": "n", "type": "int", "default": 1, "max": 5}], "vectors": [` + v + `]}`
}

func vector(t *testing.T, text string) *Vector {
	t.Helper()
	return &parse(t, withVector(text)).Vectors[0]
}

func encode(t *testing.T, v *Vector) []byte {
	t.Helper()
	b, err := v.Request()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAdmitVector(t *testing.T) {
	v := vector(t, `{
		"name": "a", "function": "admit", "config": {"n": 5},
		"event": {"pubkey": "abcd", "kind": 7, "tags": [["e", "x"], []], "content": "hello", "sig": "01"},
		"source": {"origin": "sync", "address": "192.0.2.1", "relay": "wss://r", "authed": ["01", "02"]},
		"stored": [{"id": "0a", "created_at": 5, "kind": 1}], "sets": {"friends": ["abcd", "any text"]},
		"want": {"action": "reject", "rule": "r"}}`)
	var q abi.AdmitRequestView
	if err := q.Decode(encode(t, v)); err != nil {
		t.Fatal(err)
	}
	e := &q.Event
	if !bytes.Equal(e.PubKey(), append([]byte{0xab, 0xcd}, make([]byte, 30)...)) || len(e.ID()) != 32 || len(e.Sig()) != 64 || e.Sig()[0] != 1 ||
		e.Kind() != 7 || e.Content() != "hello" || e.CreatedAt() != VectorNow || q.Now != VectorNow {
		t.Errorf("event %+v at %d", e, q.Now)
	}
	if q.Source.Origin() != abi.OriginSync || q.Source.Address() != "192.0.2.1" || q.Source.Relay() != "wss://r" || q.Source.Authed(1)[0] != 2 {
		t.Errorf("source %+v", q.Source)
	}
	if len(v.Stored) != 1 || v.Stored[0].ID != (Key{0x0a}) || v.Stored[0].CreatedAt != 5 || !slices.Equal(v.Sets["friends"], []string{"abcd", "any text"}) {
		t.Errorf("stored %+v, sets %v", v.Stored, v.Sets)
	}
	short := vector(t, `{"name": "a", "function": "admit", "event": {}, "now": 9, "want": {"action": "pass"}}`)
	if err := q.Decode(encode(t, short)); err != nil || q.Source.Origin() != abi.OriginClient || q.Event.CreatedAt() != 9 || q.Now != 9 {
		t.Errorf("what is absent: origin %d, created %d, now %d, %v", q.Source.Origin(), q.Event.CreatedAt(), q.Now, err)
	}
}

func TestQueryVector(t *testing.T) {
	v := vector(t, `{
		"name": "a", "function": "query", "verb": "neg", "now": 5, "client": {"address": "::1", "authed": ["01"], "path": "/"},
		"filters": [{"ids": ["01"], "authors": ["02", "03"], "kinds": [0, 65535], "#t": ["x", "y"], "#P": ["z"], "since": 1, "until": 2, "limit": 0, "search": "s"}, {}],
		"want": {"action": "shadow-reject"}}`)
	var q abi.QueryRequestView
	if err := q.Decode(encode(t, v)); err != nil {
		t.Fatal(err)
	}
	got := ""
	for it := q.Filters(); it.Next(); {
		f := it.Filter()
		limit, limited := f.Limit()
		since, _ := f.Since()
		until, _ := f.Until()
		got += fmt.Sprintln(f.NumIDs(), f.NumAuthors(), f.NumKinds(), since, until, limit, limited)
		for it := f.Tags(); it.Next(); {
			values := it.Values()
			values.Next()
			got += fmt.Sprintln(it.Name(), values.Text())
		}
	}
	if want := "1 2 2 1 2 0 true\nP z\nt x\n0 0 0 0 0 0 false\n"; got != want || q.Verb != abi.VerbNeg || q.Now != 5 || q.Client.Address() != "::1" || q.Client.Path() != "/" {
		t.Errorf("filters\n%swant\n%sverb %d, now %d, client %q", got, want, q.Verb, q.Now, q.Client.Address())
	}
}

func TestConnectAndPushVectors(t *testing.T) {
	var c abi.ConnectRequestView
	if err := c.Decode(encode(t, vector(t, `{"name": "a", "function": "connect", "open": 7, "from_address": 3,
		"client": {"user_agent": "u", "origin": "o"}, "want": {"action": "reject"}}`))); err != nil ||
		c.Open != 7 || c.FromAddress != 3 || c.Client.UserAgent() != "u" || c.Client.Origin() != "o" || c.Now != VectorNow {
		t.Errorf("%+v, %v", c, err)
	}
	repo := "30617:" + strings.Repeat("ab", 32) + ":x"
	var p abi.PushRequestView
	if err := p.Decode(encode(t, vector(t, `{"name": "a", "function": "push", "push": {"repo": "`+repo+`", "maintainers": ["01"], "bytes": 5, "stored": 6,
		"updates": [{"ref": "refs/heads/main", "new": "`+strings.Repeat("a", 40)+`"}]}, "want": {"action": "accept"}}`))); err != nil {
		t.Fatal(err)
	}
	updates, maintainers := p.Updates(), p.Maintainers()
	if !updates.Next() || updates.Update() != (abi.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: strings.Repeat("a", 40)}) ||
		!maintainers.Next() || p.Repo != repo || p.Bytes != 5 || p.Stored != 6 || p.Now != VectorNow {
		t.Errorf("%+v", p)
	}
}

func TestVectorCheck(t *testing.T) {
	v := &Vector{Name: "a", Want: VectorWant{Action: "reject", Rule: "r", Reason: "blocked: no"}}
	if err := v.Check(abi.ActionReject, "r", "blocked: no"); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		action       uint32
		rule, reason string
		want         string
	}{
		{abi.ActionPass, "", "", `vector "a": the answer is pass, want reject by "r" with "blocked: no"`},
		{abi.ActionReject, "s", "blocked: no", `vector "a": the answer is reject by "s" with "blocked: no", want reject by "r" with "blocked: no"`},
		{abi.ActionReject, "r", "blocked: yes", `vector "a": the answer is reject by "r" with "blocked: yes", want reject by "r" with "blocked: no"`},
		{99, "r", "", `vector "a": the answer is an unknown action by "r", want reject by "r" with "blocked: no"`},
	} {
		if err := v.Check(test.action, test.rule, test.reason); err == nil || err.Error() != test.want {
			t.Errorf("%v\nwant %s", err, test.want)
		}
	}
	v.Want = VectorWant{Action: "reject"}
	if err := v.Check(abi.ActionReject, "any", "blocked: any"); err != nil {
		t.Errorf("rule and reason that are not given are compared: %v", err)
	}
}

func TestWrongVectors(t *testing.T) {
	const event = `"event": {}, "want": {"action": "pass"}`
	admit := func(s string) string { return `{"name": "a", "function": "admit", ` + s + `}` }
	for _, test := range []struct{ vector, want string }{
		{`{"function": "admit", ` + event + `}`, `vector "": name: want one line`},
		{`{"name": "a\nb", "function": "admit", ` + event + `}`, "name: want one line"},
		{`{"name": "a", "function": "step", ` + event + `}`, `vector "a": function "step": want one of admit, query, connect, push`},
		{admit(`"want": {"action": "pass"}`), `vector "a": event is missing`},
		{admit(`"event": {}`), `want.action "": want one of pass, accept`},
		{admit(`"event": {}, "want": {"action": "deny"}`), `want.action "deny"`},
		{admit(`"now": -1, ` + event), "now is -1"},
		{admit(`"verb": "req", ` + event), "verb is not for the function admit"},
		{admit(`"client": {"path": "/"}, ` + event), "client is not for the function admit"},
		{admit(`"open": 1, ` + event), "open is not for the function admit"},
		{admit(`"event": {"kind": 65536}, "want": {"action": "pass"}`), `vector "a": event.kind is number 65536: want a whole number from 0 to 65535`},
		{admit(`"event": {"kind": "x"}, "want": {"action": "pass"}`), "event.kind is string: want a whole number from 0 to 65535"},
		{admit(`"event": {"id": 5}, "want": {"action": "pass"}`), "event.id is number: want hex digits"},
		{admit(`"event": {"tags": {}}, "want": {"action": "pass"}`), "event.tags is object: want a list"},
		{admit(`"event": {"content": 5}, "want": {"action": "pass"}`), "event.content is number: want a string"},
		{admit(`"event": 5, "want": {"action": "pass"}`), "event is number: want an object"},
		{admit(`"now": "x", ` + event), "now is string: want a whole number"},
		{admit(`"config": 5, ` + event), "config is number: want an object"},
		{admit(`"event": {"id": "xx"}, "want": {"action": "pass"}`), `"xx": want an even number of hex digits`},
		{admit(`"event": {"pubkey": "` + strings.Repeat("a", 66) + `"}, "want": {"action": "pass"}`), "want at most 64 hex digits"},
		{admit(`"source": {"origin": "moon"}, ` + event), `origin "moon": want client, import or sync`},
		{admit(`"source": {"address": "example.org"}, ` + event), `address "example.org": want an IP address`},
		{admit(`"sets": {"A": []}, ` + event), `the set "A"`},
		{admit(`"config": {"n": 6}, ` + event), `vector "a": config n = 6: want a whole number, at most 5`},
		{admit(`"config": {"m": 6}, ` + event), `vector "a": config m = 6`},
		{admit(event) + "," + admit(event), `vector "a": there are two of this name`},
		{`{"name": "a", "function": "query", "want": {"action": "pass"}}`, "filters is missing"},
		{`{"name": "a", "function": "query", "filters": [{}], "want": {"action": "hold"}}`, "want.action hold is no answer to query"},
		{`{"name": "a", "function": "query", "filters": [{}], "verb": "get", "want": {"action": "pass"}}`, `verb "get"`},
		{`{"name": "a", "function": "query", "filters": [{"kinds": []}], "want": {"action": "pass"}}`, "an empty list matches nothing"},
		{`{"name": "a", "function": "query", "filters": [{"#t": []}], "want": {"action": "pass"}}`, "an empty list matches nothing"},
		{`{"name": "a", "function": "query", "filters": [{"#t": "x"}], "want": {"action": "pass"}}`, "filter: #t: want a list of strings"},
		{`{"name": "a", "function": "query", "filters": [{"limit": -1}], "want": {"action": "pass"}}`, "filter: limit is number -1: want a whole number from 0 to"},
		{`{"name": "a", "function": "query", "filters": [5], "want": {"action": "pass"}}`, `vector "a": filter: `},
		{`{"name": "a", "function": "connect", "want": {"action": "auth-required"}}`, "want.action auth-required is no answer to connect"},
		{`{"name": "a", "function": "push", "want": {"action": "pass"}}`, "push is missing"},
		{`{"name": "a", "function": "push", "push": {"repo": "1:ab:x"}, "want": {"action": "pass"}}`, "want 30617:"},
	} {
		if _, err := Parse([]byte(withVector(test.vector))); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.vector, err, test.want)
		}
	}
	push := func(s string) string {
		return `{"name": "a", "function": "push", "push": {"repo": "30617:` + strings.Repeat("ab", 32) + `:x", ` + s + `}, "want": {"action": "pass"}}`
	}
	for s, want := range map[string]string{
		`"updates": []`:                                 "updates is empty",
		`"updates": [{"ref": "main"}]`:                  `ref "main"`,
		`"updates": [{"ref": "refs/x", "old": "beef"}]`: `object "beef"`,
		`"bytes": -1, "updates": [{"ref": "refs/x"}]`:   "bytes or stored is negative",
	} {
		if _, err := Parse([]byte(withVector(push(s)))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", s, err, want)
		}
	}
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf(`{"name": "%d", "function": "admit", %s}`, i, event))
	}
	if _, err := Parse([]byte(withVector(strings.Join(many, ",")))); err == nil || !strings.Contains(err.Error(), "vectors has more than 64") {
		t.Errorf("65 vectors: %v", err)
	}
}

func TestFunctionsAndPlace(t *testing.T) {
	text := func(s string) []byte { return []byte(`{"talon_manifest": 1, "name": "x", ` + s + `}`) }
	for _, test := range []struct {
		text      string
		functions string
		place     int
	}{
		{`"worlds": ["policy"]`, "admit", 50},
		{`"worlds": ["policy"], "place": 0`, "admit", 0},
		{`"worlds": ["policy"], "functions": ["query", "push"], "place": 1000`, "query push", 1000},
		{`"worlds": ["strategy"]`, "step", 50},
		{`"worlds": ["policy", "strategy"]`, "admit step", 50},
		{`"worlds": ["policy", "strategy"], "functions": ["step", "connect"]`, "step connect", 50},
	} {
		m, err := Parse(text(test.text))
		if err != nil || strings.Join(m.Functions, " ") != test.functions || m.Place != test.place {
			t.Errorf("%s: %+v, %v; want %s at %d", test.text, m, err, test.functions, test.place)
		}
	}
	for s, want := range map[string]string{
		`"worlds": ["policy"], "functions": []`:                    "functions names none of the world policy: admit, query, connect, push",
		`"worlds": ["policy"], "functions": ["admit", "admit"]`:    `functions names "admit" twice`,
		`"worlds": ["policy"], "functions": ["admit", "step"]`:     `functions: "step": want one of admit, query, connect, push`,
		`"worlds": ["policy", "strategy"], "functions": ["admit"]`: "functions names none of the world strategy: step",
		`"worlds": ["policy"], "place": -1`:                        "place is -1: want 0 to 1000",
		`"worlds": ["policy"], "place": 1001`:                      "place is 1001",
		`"worlds": ["policy"], "functions": ["push"], "vectors": [{"name": "a", "function": "admit", "event": {}, "want": {"action": "pass"}}]`: `vector "a": it tests admit, which functions does not name`,
	} {
		if _, err := Parse(text(s)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", s, err, want)
		}
	}
}

// TestDecisionsAreVectors reads recorded decisions back, as vectors and with their further fields.
func TestDecisionsAreVectors(t *testing.T) {
	since, limit := int64(0), 0
	client := &VectorClient{Address: "::1", Authed: []Key{{1}}, UserAgent: "u", Origin: "o<", Path: "/"}
	filters := []VectorFilter{
		FilterOf(&abi.QueryFilter[[32]byte, Key, uint16, struct {
			Name   byte
			Values []string
		}]{
			IDs: [][32]byte{{2}}, Authors: []Key{{3}}, Kinds: []uint16{0, 65535}, Tags: []tagCondition{{'t', []string{"<x>", ""}}},
			Since: &since, Until: &since, Limit: limit,
		}),
		FilterOf(&abi.QueryFilter[Key, Key, uint16, tagCondition]{Kinds: []uint16{1}, Limit: -1}),
	}
	event := json.RawMessage(`{"id":"` + strings.Repeat("ab", 32) + `","kind":1,"created_at":5}`)
	for _, d := range []Decision{
		{Function: "admit", Now: 7, Event: event, Source: &VectorSource{Origin: "sync", Address: "1.2.3.4", Relay: "wss://r", Authed: []Key{{4}}}, Stored: []json.RawMessage{event}, Held: []json.RawMessage{event}},
		{Function: "query", Now: 7, Client: client, Verb: "neg", Filters: filters, Sets: map[string][]string{"s": {"x"}}},
		{Function: "connect", Now: 7, Client: client, Open: 3, FromAddress: 2},
		{Function: "push", Now: 7, Client: client, Push: &VectorPush{
			Repo: "30617:" + strings.Repeat("ab", 32) + ":d", Maintainers: []Key{{5}}, Bytes: 1, Stored: 2, PRs: true,
			Updates: []VectorUpdate{{"refs/heads/<main>", strings.Repeat("0", 40), strings.Repeat("a", 40)}},
		}},
	} {
		d.Service = VectorService{Domain: "relay.example.com", PRs: true, Operator: Key{6}}
		d.Want = VectorWant{Action: "reject", Rule: "r", Reason: "blocked: <no>"}
		d.Recorded = Recorded{By: "p", Chain: []string{"p", "q"}, Asked: 1, Unseen: []string{"git.has"}}
		line, err := d.Line()
		if err != nil {
			t.Fatal(err)
		}
		if text := string(line); strings.Count(text, "\n") != 1 || strings.Contains(text, `\u003c`) {
			t.Errorf("%s is not one line, or not as it is written by hand", text)
		}
		var v Vector
		var beside Recorded
		if err := json.Unmarshal([]byte(`{"name":"x",`+string(line[1:])), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if err := json.Unmarshal(line, &beside); err != nil || !reflect.DeepEqual(beside, d.Recorded) {
			t.Errorf("%s: %+v, %v", line, beside, err)
		}
		source, client := VectorSource{}, VectorClient{}
		if d.Source != nil {
			source = *d.Source
		}
		if d.Client != nil {
			client = *d.Client
		}
		if v.Function != d.Function || v.Now != 7 || *v.Service != d.Service || !reflect.DeepEqual(v.Source, source) || !reflect.DeepEqual(v.Client, client) ||
			v.Verb != d.Verb || !reflect.DeepEqual(v.Filters, d.Filters) || int(v.Open) != d.Open || int(v.FromAddress) != d.FromAddress ||
			!reflect.DeepEqual(v.Push, d.Push) || !reflect.DeepEqual(v.Sets, d.Sets) || !reflect.DeepEqual(v.Want, d.Want) ||
			(v.Event != nil) != (d.Event != nil) || len(v.Stored) != len(d.Stored) || len(v.Held) != len(d.Held) {
			t.Errorf("%s\nis read as %+v", line, v)
		}
		if v.Event != nil && (v.Event.ID != Key(([]byte)(strings.Repeat("\xab", 32))) || v.Event.CreatedAt != 5) {
			t.Errorf("%s: the event is read as %+v", line, v.Event)
		}
	}
}
