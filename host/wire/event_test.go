package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"talon/host"
)

var (
	id32  = strings.Repeat("ab", 32)
	sig64 = strings.Repeat("cd", 64)
)

// eventText builds an event from its fields, with some replaced or removed.
func eventText(replace map[string]string) string {
	fields := [][2]string{
		{"id", `"` + id32 + `"`}, {"pubkey", `"` + id32 + `"`}, {"created_at", "1700000000"},
		{"kind", "1"}, {"tags", `[["e","x"],["p"]]`}, {"content", `"hi"`}, {"sig", `"` + sig64 + `"`},
	}
	var members []string
	for _, f := range fields {
		v, ok := replace[f[0]]
		if !ok {
			v = f[1]
		}
		if v != "" {
			members = append(members, `"`+f[0]+`":`+v)
		}
	}
	if extra := replace["+"]; extra != "" {
		members = append(members, extra)
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestParseEventRefuses(t *testing.T) {
	tests := []struct {
		name string
		text string
		want string // part of the reason
	}{
		{"empty", "", "must be a JSON object"},
		{"a list", "[]", "must be a JSON object"},
		{"cut short", strings.TrimSuffix(eventText(nil), "}"), "too early"},
		{"trailing text", eventText(nil) + "x", "after the end"},
		{"trailing comma", strings.Replace(eventText(nil), `"}`, `",}`, 1), "not valid JSON"},
		{"missing field", eventText(map[string]string{"sig": ""}), "sig is missing"},
		{"field twice", eventText(map[string]string{"+": `"kind":2`}), "kind stands twice"},
		{"same field with an escape", eventText(map[string]string{"+": `"k\u0069nd":2`}), "kind stands twice"},
		{"upper-case id", eventText(map[string]string{"id": `"` + strings.ToUpper(id32) + `"`}), "id must be 64 lower-case hex"},
		{"over-long id", eventText(map[string]string{"id": `"` + id32 + `ab"`}), "id must be 64"},
		{"short sig", eventText(map[string]string{"sig": `"ab"`}), "sig must be 128"},
		{"pubkey a number", eventText(map[string]string{"pubkey": "1"}), "pubkey must be a string"},
		{"kind too large", eventText(map[string]string{"kind": "65536"}), "kind must be from 0 to 65535"},
		{"kind negative", eventText(map[string]string{"kind": "-1"}), "kind must be"},
		{"kind a string", eventText(map[string]string{"kind": `"1"`}), "kind must be an integer"},
		{"created_at a fraction", eventText(map[string]string{"created_at": "1.5"}), "created_at must be an integer"},
		{"created_at with exponent", eventText(map[string]string{"created_at": "1e9"}), "created_at must be an integer"},
		{"created_at negative", eventText(map[string]string{"created_at": "-1"}), "must not be negative"},
		{"created_at too large", eventText(map[string]string{"created_at": "9223372036854775808"}), "at most 64 bits"},
		{"leading zero", eventText(map[string]string{"created_at": "01"}), "not valid JSON"},
		{"tags an object", eventText(map[string]string{"tags": "{}"}), "tags must be a list"},
		{"a tag a string", eventText(map[string]string{"tags": `["e"]`}), "each tag must be a list of strings"},
		{"a tag value a number", eventText(map[string]string{"tags": `[["e",1]]`}), "each tag must be a list of strings"},
		{"content null", eventText(map[string]string{"content": "null"}), "content must be a string"},
		{"raw control character", eventText(map[string]string{"content": "\"a\nb\""}), "not valid JSON"},
		{"unterminated string", `{"id":"abc`, "not terminated"},
		{"unterminated escape", `{"id":"abc\`, "not terminated"},
		{"unknown escape", eventText(map[string]string{"content": `"\x"`}), "not valid JSON"},
		{"lone high surrogate", eventText(map[string]string{"content": `"\ud800"`}), "surrogate"},
		{"lone low surrogate", eventText(map[string]string{"content": `"\udc00\ud800"`}), "surrogate"},
		{"invalid UTF-8", eventText(map[string]string{"content": "\"\xff\""}), "UTF-8"},
		{"deep foreign value", eventText(map[string]string{"+": `"x":` + strings.Repeat("[", 5000)}), "nested more than"},
		{"bad foreign value", eventText(map[string]string{"+": `"x":{"y":tru}`}), "not valid JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseEvent([]byte(tt.text))
			var werr *Error
			if !errors.As(err, &werr) || !strings.HasPrefix(werr.Reason, "invalid: ") || !strings.Contains(werr.Reason, tt.want) {
				t.Errorf("got %v, want invalid: … %q …", err, tt.want)
			}
		})
	}
}

func TestParseEventEncodings(t *testing.T) {
	plain := eventText(map[string]string{"content": `"a/é😀\n"`})
	want, err := ParseEvent([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	if string(want.JSON) != plain {
		t.Errorf("stored as %s, want it as sent", want.JSON)
	}
	tests := []struct {
		name   string
		text   string
		asSent bool
	}{
		{"escapes", eventText(map[string]string{"content": `"\u0061\/\u00e9\uD83D\uDE00\u000a"`}), true},
		{"escaped name", strings.Replace(plain, `"kind"`, `"k\u0069nd"`, 1), true},
		{"white space", " \n" + strings.ReplaceAll(plain, `,"`, " ,\t\r\n \"") + " ", false},
		{"foreign fields", strings.Replace(plain, "{", `{"a":[{"b":{}},[],1e5,null],"x":"`+strings.Repeat("y", 9)+`",`, 1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseEvent([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if asSent := string(got.JSON) == tt.text; asSent != tt.asSent {
				t.Errorf("stored as %s", got.JSON)
			}
			again, err := ParseEvent(got.JSON)
			if err != nil {
				t.Fatalf("what is stored does not parse: %v", err)
			}
			got.JSON, again.JSON = nil, nil
			w := *want
			w.JSON = nil
			if !reflect.DeepEqual(*got, w) || !reflect.DeepEqual(*again, w) {
				t.Errorf("got %+v\nthen %+v\nwant %+v", *got, *again, w)
			}
		})
	}
}

// Tags share slices: growing one must not write into its neighbour.
func TestTagsDoNotOverlap(t *testing.T) {
	tags := make([][]string, 50)
	for i := range tags {
		for j := range i % 40 {
			tags[i] = append(tags[i], strings.Repeat("x", j))
		}
		if tags[i] == nil {
			tags[i] = []string{}
		}
	}
	text, _ := json.Marshal(tags)
	e, err := ParseEvent([]byte(eventText(map[string]string{"tags": string(text)})))
	if err != nil {
		t.Fatal(err)
	}
	for i := range tags {
		_ = append(e.Tags[i], "spill")
	}
	for i, want := range tags {
		if !reflect.DeepEqual(e.Tags[i], want) {
			t.Errorf("tag %d: got %q, want %q", i, e.Tags[i], want)
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(eventText(nil)))
	f.Add([]byte(eventText(map[string]string{"content": `"\ud83d\ude00\u0000\/"`, "+": `"x":[{"y":null}]`})))
	f.Add([]byte(`{"id":"` + id32))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseEvent(data)
		if err != nil {
			var werr *Error
			if !errors.As(err, &werr) {
				t.Fatalf("error %v is not for the client", err)
			}
			return
		}
		if !json.Valid(data) || !json.Valid(e.JSON) {
			t.Fatalf("accepted what is not JSON: %q", data)
		}
		var theirs struct {
			Kind    host.Kind
			Tags    [][]string
			Content string
		}
		if err := json.Unmarshal(e.JSON, &theirs); err != nil {
			t.Fatalf("another reader refuses %q: %v", e.JSON, err)
		}
		if theirs.Kind != e.Kind || theirs.Content != e.Content || !reflect.DeepEqual(theirs.Tags, [][]string(e.Tags)) {
			t.Fatalf("another reader sees %+v, want %+v", theirs, e)
		}
		again, err := ParseEvent(e.AppendJSON(nil))
		if err != nil {
			t.Fatalf("what was written does not parse: %v", err)
		}
		again.JSON, e.JSON = nil, nil
		if !reflect.DeepEqual(again, e) {
			t.Fatalf("got %+v, want %+v", again, e)
		}
	})
}

func BenchmarkParseEvent(b *testing.B) {
	text := []byte(eventText(map[string]string{
		"tags":    `[["e","` + id32 + `"],["p","` + id32 + `"],["t","nostr"],["a","30617:` + id32 + `:talon"]]`,
		"content": `"` + strings.Repeat("lorem ipsum ", 40) + `"`,
	}))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseEvent(text); err != nil {
			b.Fatal(err)
		}
	}
}
