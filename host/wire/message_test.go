package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"talon/host"
)

func TestParseMessage(t *testing.T) {
	since, until := int64(5), int64(9)
	var id host.ID
	host.ParseHex(id[:], id32)
	tests := []struct {
		text string
		want Message
	}{
		{`["REQ","s",{}]`, Message{Verb: Req, SubID: "s", Filters: []host.Filter{{Limit: -1}}}},
		{`["\u0052EQ","\"é",{"ids":["` + id32 + `","` + id32 + `"],"authors":[],"kinds":[1,70000,1],"since":5,"until":9,"limit":0,"#E":["x","y","x"],"#e":[]},{"limit":99999999999}]`,
			Message{Verb: Req, SubID: `"é`, Filters: []host.Filter{{
				IDs: []host.ID{id}, Authors: []host.PubKey{}, Kinds: []host.Kind{1}, Since: &since, Until: &until,
				Tags: []host.TagFilter{{Name: 'E', Values: []string{"x", "y"}}, {Name: 'e', Values: []string{}}},
			}, {Limit: 1<<31 - 1}}}},
		{` [ "CLOSE" , "s" ] `, Message{Verb: Close, SubID: "s"}},
		{`["COUNT","s",{"kinds":[1]}]`, Message{Verb: Count, SubID: "s", Filters: []host.Filter{{Kinds: []host.Kind{1}, Limit: -1}}}},
		{`["NEG-OPEN","n",{},"61"]`, Message{Verb: NegOpen, SubID: "n", Filters: []host.Filter{{Limit: -1}}, Neg: []byte{0x61}}},
		{`["NEG-MSG","n","6100"]`, Message{Verb: NegMsg, SubID: "n", Neg: []byte{0x61, 0}}},
		{`["NEG-CLOSE","n"]`, Message{Verb: NegClose, SubID: "n"}},
	}
	for _, tt := range tests {
		got, err := ParseMessage([]byte(tt.text), &DefaultLimits)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
		} else if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.text, got, tt.want)
		}
	}
}

// With an error comes what was understood before it, so that the answer can
// name the subscription or the event.
func TestParseMessageErrors(t *testing.T) {
	many := `"` + strings.Repeat(`x","`, 3000) + `x"`
	tests := []struct {
		text string
		want Message
		says string
	}{
		{``, Message{}, "JSON array"},
		{`{}`, Message{}, "JSON array"},
		{`[]`, Message{}, "verb"},
		{`[1]`, Message{}, "verb"},
		{`["HELLO"]`, Message{}, `unknown verb "HELLO"`},
		{strings.Repeat("[", 5000), Message{}, "verb"},
		{`["REQ"]`, Message{Verb: Req}, "needs a subscription id"},
		{`["REQ",5,{}]`, Message{Verb: Req}, "needs a subscription id"},
		{`["REQ","",{}]`, Message{Verb: Req}, "must not be empty"},
		{`["REQ","` + strings.Repeat("x", 65) + `",{}]`, Message{Verb: Req, SubID: strings.Repeat("x", 65)}, "at most 64 characters"},
		{`["REQ","` + strings.Repeat("x", 1025) + `",{}]`, Message{Verb: Req}, "at most 64 characters"},
		{`["REQ","s",{"#e":["x"]}]`, Message{Verb: Req, SubID: "s"}, "#e must hold values of 64 lower-case hex"},
		{`["NEG-OPEN","s",[{},{}],"61"]`, Message{Verb: NegOpen, SubID: "s"}, "takes one filter"},
		{`["REQ","s"]`, Message{Verb: Req, SubID: "s"}, "needs a filter"},
		{`["REQ","s",[]]`, Message{Verb: Req, SubID: "s"}, "JSON object"},
		{`["REQ","s"` + strings.Repeat(",{}", 101) + `]`, Message{Verb: Req, SubID: "s"}, "at most 100 filters"},
		{`["REQ","s",{"#t":[` + many + `]}]`, Message{Verb: Req, SubID: "s"}, "at most 2000 values"},
		{`["REQ","s",{"ids":["abc"]}]`, Message{Verb: Req, SubID: "s"}, "64 lower-case hex"},
		{`["REQ","s",{"kinds":["1"]}]`, Message{Verb: Req, SubID: "s"}, "must be an integer"},
		{`["REQ","s",{"kinds":[-1]}]`, Message{Verb: Req, SubID: "s"}, "must not be negative"},
		{`["REQ","s",{"limit":-1}]`, Message{Verb: Req, SubID: "s"}, "must not be negative"},
		{`["REQ","s",{"since":"now"}]`, Message{Verb: Req, SubID: "s"}, "since must be an integer"},
		{`["REQ","s",{"kinds":[1],"kinds":[2]}]`, Message{Verb: Req, SubID: "s"}, "stands twice"},
		{`["REQ","s",{"#t":["a"],"#t":["b"]}]`, Message{Verb: Req, SubID: "s"}, "stands twice"},
		{`["REQ","s",{"near":"x"}]`, Message{Verb: Req, SubID: "s"}, "unsupported: filter contains the unknown element"},
		{`["REQ","s",{"search":["x"]}]`, Message{Verb: Req, SubID: "s"}, "invalid: search must be a string"},
		{`["REQ","s",{"search":"x","search":"x"}]`, Message{Verb: Req, SubID: "s"}, "invalid: the filter element search stands twice"},
		{`["REQ","s",{"search":"a b c d e f g h i j k l m n o p q"}]`, Message{Verb: Req, SubID: "s"}, "invalid: a search may have at most 16 words"},
		{`["NEG-OPEN","s",{"search":"x"},"61"]`, Message{Verb: NegOpen, SubID: "s"}, "unsupported: a search cannot be reconciled"},
		{`["REQ","s",{"#tt":["x"]}]`, Message{Verb: Req, SubID: "s"}, "unsupported: "},
		{`["REQ","s",{}] x`, Message{Verb: Req, SubID: "s"}, "after the end"},
		{`["CLOSE","s","x"]`, Message{Verb: Close, SubID: "s"}, "too many elements"},
		{`["EVENT"]`, Message{Verb: Event}, "needs an event"},
		{`["EVENT",` + eventText(map[string]string{"kind": `"x"`, "id": "", "+": `"id":"zz"`}) + `]`, Message{Verb: Event, EventID: "zz"}, "kind must be"},
		{`["NEG-OPEN","n",{}]`, Message{Verb: NegOpen, SubID: "n"}, "needs a negentropy message"},
		{`["NEG-MSG","n","6"]`, Message{Verb: NegMsg, SubID: "n"}, "not hex"},
		{"[\"REQ\",\"\xff\",{}]", Message{}, "UTF-8"},
	}
	for _, tt := range tests {
		got, err := ParseMessage([]byte(tt.text), &DefaultLimits)
		var werr *Error
		if !errors.As(err, &werr) || !strings.Contains(werr.Reason, tt.says) {
			t.Errorf("%.80s: error %v, want … %q …", tt.text, err, tt.says)
		}
		if got.Verb != tt.want.Verb || got.SubID != tt.want.SubID || got.EventID != tt.want.EventID {
			t.Errorf("%.80s: got %+v, want %+v", tt.text, got, tt.want)
		}
	}
}

func TestReplies(t *testing.T) {
	tests := []struct{ got, want string }{
		{string(AppendEventPrefix(nil, `a"b`)) + `{}]`, `["EVENT","a\"b",{}]`},
		{string(AppendOK(nil, "id", false, "invalid: \n")), `["OK","id",false,"invalid: \n"]`},
		{string(AppendEOSE(nil, "s", "")), `["EOSE","s"]`},
		{string(AppendEOSE(nil, "s", HintMore)), `["EOSE","s",["more"]]`},
		{string(AppendClosed(nil, "s", "error: x")), `["CLOSED","s","error: x"]`},
		{string(AppendNotice(nil, "x")), `["NOTICE","x"]`},
		{string(AppendAuth(nil, "x")), `["AUTH","x"]`},
		{string(AppendCount(nil, "s", 7, nil)), `["COUNT","s",{"count":7}]`},
		{string(AppendCount(nil, "s", 7, []byte{1, 2})), `["COUNT","s",{"count":7,"hll":"0102"}]`},
		{string(AppendNegMsg(nil, "n", []byte{0x61})), `["NEG-MSG","n","61"]`},
		{string(AppendNegErr(nil, "n", "blocked: x")), `["NEG-ERR","n","blocked: x"]`},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
		if !json.Valid([]byte(tt.got)) {
			t.Errorf("not JSON: %s", tt.got)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	for _, s := range []string{
		`["REQ","s",{"ids":["` + id32 + `"],"#t":["x"],"since":1,"limit":5},{}]`, `["CLOSE","s"]`,
		`["NEG-OPEN","n",{"kinds":[1]},"6100"]`, `["EVENT",` + eventText(nil) + `]`, `["AUTH",{}]`, `["COUNT","\u00e9",{}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMessage(data, &DefaultLimits)
		if err == nil && (!json.Valid(data) || m.Verb == Unknown) {
			t.Fatalf("accepted %q as %+v", data, m)
		}
	})
}

// FuzzParseFilter compares each filter with encoding/json's reading of it.
func FuzzParseFilter(f *testing.F) {
	f.Add([]byte(`{"ids":["` + id32 + `"],"authors":[],"kinds":[1,2,65536],"#e":["x"],"since":0,"until":3,"limit":10}`))
	f.Add([]byte(`{"#\u0074":["\ud83d\ude00"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseFilter(data, &DefaultLimits)
		if err != nil {
			return
		}
		var theirs map[string]json.RawMessage
		if err := json.Unmarshal(data, &theirs); err != nil {
			t.Fatalf("accepted %q: %v", data, err)
		}
		_, ids := theirs["ids"]
		_, kinds := theirs["kinds"]
		_, limit := theirs["limit"]
		if ids != (got.IDs != nil) || kinds != (got.Kinds != nil) || limit != (got.Limit >= 0) {
			t.Fatalf("%q read as %+v", data, got)
		}
		for _, tag := range got.Tags {
			if _, ok := theirs["#"+string(tag.Name)]; !ok {
				t.Fatalf("%q read as %+v", data, got)
			}
		}
	})
}
