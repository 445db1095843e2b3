package main

import (
	"reflect"
	"strings"
	"testing"

	"talon/host"
)

func TestParseTag(t *testing.T) {
	const (
		id    = "46d731680add2990efe1cc619dc9b8014feeb23261ab9dee50e9d11814de5a2b"
		note  = "note1gmtnz6q2m55epmlpe3semjdcq987av3jvx4emmjsa8g3s9x7tg4sclreky"
		owner = "2e2c9221dc4d2518f9a101db336695f1afb56ab82f5ff3e5da6eec3ca5cd917"
		naddr = "naddr1qqzhgctvdahqygqhzckfy8wy6fgclxssrkend9wlrta4d2uz7hlnuhdxampu5hxezupsgqqqw7vslspsv5"
	)
	for text, want := range map[string]host.Tag{
		"t=bug":                       {"t", "bug"},
		"t":                           {"t"},
		"t=":                          {"t", ""},
		"t=a;;b":                      {"t", "a", "", "b"},
		"alt=a=b":                     {"alt", "a=b"},
		`["t","a;b=c"]`:               {"t", "a;b=c"},
		` ["t"]`:                      {` ["t"]`},
		"p=" + aliceNpub + ";wss://r": {"p", pubkey("alice"), "wss://r"},
		"P=" + aliceNpub:              {"P", pubkey("alice")},
		"t=" + aliceNpub:              {"t", aliceNpub},
		"e=" + note:                   {"e", id},
		"q=" + note:                   {"q", id},
		"e=" + id:                     {"e", id},
		`["p","` + aliceNpub + `"]`:   {"p", aliceNpub},
	} {
		if got, err := parseTag(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("parseTag(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, name := range []string{"a", "A", "q"} {
		got, err := parseTag(name + "=" + naddr)
		if err != nil || len(got) != 2 || !strings.HasPrefix(got[1], "30617:") || !strings.HasSuffix(got[1], owner[len(owner)-20:]+":talon") {
			t.Errorf("the tag %s of an naddr is %q, %v", name, got, err)
		}
	}
	for _, text := range []string{"", "=", "=x", "[", "[]", `["a",["b"]]`, `["a"] x`, "p=npub1", "e=note1x", "a=naddr1x", "q=nevent1"} {
		if got, err := parseTag(text); err == nil {
			t.Errorf("parseTag(%q) = %q, want an error", text, got)
		}
	}
}

func TestIdentifier(t *testing.T) {
	for name, want := range map[string]string{
		"demo": "demo", "My Demo": "my-demo", "  a -- b! ": "a-b", "Größe 2": "größe-2", "../etc": "etc", "...": "", "": "", "a\x00b": "a-b",
	} {
		if got := identifierOf(name); got != want {
			t.Errorf("identifierOf(%q) = %q, want %q", name, got, want)
		}
	}
}
