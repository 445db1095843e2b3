package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"talon/host"
)

func TestParseAnswer(t *testing.T) {
	var id host.ID
	host.ParseHex(id[:], id32)
	for text, want := range map[string]Answer{
		`["OK","` + id32 + `",true,""]`:                 {Verb: AnswerOK, ID: id, OK: true},
		`["OK","` + id32 + `",false,"blocked: \u00e9"]`: {Verb: AnswerOK, ID: id, Text: "blocked: é"},
		` [ "OK" , "` + id32 + `" , true ] `:            {Verb: AnswerOK, ID: id, OK: true},
		`["OK","` + id32 + `",false,null]`:              {Verb: AnswerOK, ID: id},
		`["EOSE","s"]`:                                  {Verb: AnswerEOSE, SubID: "s"},
		`["EOSE","s",{"more":[1]}]`:                     {Verb: AnswerEOSE, SubID: "s"},
		`["CLOSED","s","error: x"]`:                     {Verb: AnswerClosed, SubID: "s", Text: "error: x"},
		`["CLOSED","s"]`:                                {Verb: AnswerClosed, SubID: "s"},
		`["NOTICE","n"]`:                                {Verb: AnswerNotice, Text: "n"},
		`["AUTH","c"]`:                                  {Verb: AnswerAuth, Text: "c"},
		`["COUNT","s",{"count":3}]`:                     {},
		`["EVENTS"]`:                                    {},
	} {
		got, err := ParseAnswer([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	text := `{"id":"` + id32 + `","pubkey":"` + id32 + `","created_at":1,"kind":1,"tags":[],"content":"x","sig":"` + id32 + id32 + `"}`
	got, err := ParseAnswer([]byte(`["EVENT","s",` + text + `]`))
	if err != nil || got.Verb != AnswerEvent || got.SubID != "s" || got.Event == nil || string(got.Event.JSON) != text {
		t.Errorf("EVENT: %+v, %v", got, err)
	}
}

func TestParseAnswerRefuses(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{}`, `[1]`, `["OK"`, `["OK"]`, `["OK","` + id32 + `"]`, `["OK","` + id32 + `",null]`, `["OK","` + id32 + `",1]`, `["OK","` + id32 + `",tru]`,
		`["OK","` + id32[:62] + `",true]`, `["OK","` + strings.ToUpper(id32) + `G",true]`, `["OK",5,true]`,
		`["EVENT","s"]`, `["EVENT",{}]`, `["EVENT","s",{}]`, `["EOSE"]`, `["EOSE",null]`, `["CLOSED"]`, `["NOTICE"]`, `["NOTICE",{}]`, `["AUTH",7]`,
		`["EOSE","s"] x`, `["EOSE","s",]`, `["EOSE" "s"]`, "[\"NOTICE\",\"\xff\"]", `["X",` + strings.Repeat("[", 1000),
	} {
		got, err := ParseAnswer([]byte(text))
		if wrong := new(Error); !errors.As(err, &wrong) {
			t.Errorf("%.60s: %+v, %v; want an *Error", text, got, err)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`["OK","` + id32 + `",true,""]`))
	f.Add([]byte(`["EVENT","s",{"id":"` + id32 + `"}]`))
	f.Add([]byte(`["X",[{"a":"\ud800\udc00"}],1e9,null]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, err := ParseAnswer(data); err == nil && a.Verb == AnswerEvent && a.Event == nil {
			t.Error("an EVENT without an event")
		}
	})
}
