package loop

import (
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
)

// A filter goes out as package wire reads it.
func TestFilterJSON(t *testing.T) {
	since, until := int64(5), int64(9)
	in := abi.Filter{
		IDs: [][32]byte{{1}}, Authors: [][32]byte{{2}, {3}}, Kinds: []uint32{1, 30617}, Since: &since, Until: &until, Limit: 7,
		Tags: []abi.TagFilter{{Name: "a", Values: []string{"30617:x:y\"z", "\n"}}, {Name: "E", Values: []string{"é"}}},
	}
	f, ok := filterOf(&in)
	if !ok {
		t.Fatal("refused")
	}
	m, err := wire.ParseMessage(wire.AppendReq(nil, "s1", f, host.Filter{Limit: 0}), &wire.DefaultLimits)
	if err != nil || m.SubID != "s1" || len(m.Filters) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	got := m.Filters[0]
	if !slices.Equal(got.IDs, f.IDs) || !slices.Equal(got.Authors, f.Authors) || !slices.Equal(got.Kinds, f.Kinds) ||
		*got.Since != 5 || *got.Until != 9 || got.Limit != 7 || len(got.Tags) != 2 || !slices.Equal(got.Tags[0].Values, in.Tags[0].Values) {
		t.Errorf("%+v", got)
	}
	if m.Filters[1].Limit != 0 {
		t.Errorf("%+v", m.Filters[1])
	}
	neg := int64(-1)
	for name, bad := range map[string]abi.Filter{
		"a kind":      {Kinds: []uint32{70000}},
		"a tag":       {Tags: []abi.TagFilter{{Name: "ab", Values: []string{"x"}}}},
		"no values":   {Tags: []abi.TagFilter{{Name: "a"}}},
		"a tag twice": {Tags: []abi.TagFilter{{Name: "a", Values: []string{"x"}}, {Name: "a", Values: []string{"y"}}}},
		"a quote":     {Tags: []abi.TagFilter{{Name: "\"", Values: []string{"x"}}}},
		"no time":     {Since: &until, Until: &since},
		"before 1970": {Since: &neg},
	} {
		if _, ok := filterOf(&bad); ok {
			t.Errorf("%s passed", name)
		}
	}
}

func TestNormalise(t *testing.T) {
	for in, want := range map[string]string{
		"wss://relay.example.com":              "wss://relay.example.com",
		"WSS://Relay.Example.com/":             "wss://relay.example.com",
		"wss://relay.example.com:443//":        "wss://relay.example.com",
		"ws://relay.example.com.:80":           "ws://relay.example.com",
		" wss://relay.example.com ":            "wss://relay.example.com",
		"wss://relay.example.com/Path/":        "wss://relay.example.com/Path",
		"wss://relay.example.com?x=1":          "wss://relay.example.com?x=1",
		"ws://[::1]:7777/":                     "ws://[::1]:7777",
		"ws://[0:0:0:0:0:0:0:1]:80":            "ws://[::1]",
		"ws://relay.example.com:443":           "ws://relay.example.com:443",
		"https://relay.example.com":            "",
		"relay.example.com":                    "",
		"wss://user:pass@relay.example.com":    "",
		"wss://relay.example.com/#x":           "",
		"wss://":                               "",
		"wss://.":                              "",
		"wss://a b":                            "",
		"wss://a\"b":                           "",
		"wss://bücher.example":                 "",
		"wss://[fe80::1%25eth0]":               "",
		"wss://" + strings.Repeat("a", 600):    "",
		"wss://relay.example.com/\r\nX: y":     "",
		"wss://relay.example.com\\@evil.local": "",
	} {
		if got, ok := Normalise(in); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v; want %q", in, got, ok, want)
		}
		if again, _ := Normalise(want); want != "" && again != want {
			t.Errorf("%q becomes %q", want, again)
		}
	}
}

func TestOwnNames(t *testing.T) {
	own := newOwnNames([]string{"Relay.Example.com", "localhost:7334", "wss://other.example/x", ""})
	for u, want := range map[string]bool{
		"wss://relay.example.com":      true,
		"ws://relay.example.com":       true,
		"wss://relay.example.com/path": true,
		"ws://relay.example.com:443":   true,
		"ws://relay.example.com:7334":  false,
		"ws://localhost:7334":          true,
		"ws://localhost:7335":          false,
		"wss://other.example":          true,
		"wss://example.com":            false,
	} {
		n, ok := Normalise(u)
		if !ok || own.has(n) != want {
			t.Errorf("%s: %v", u, own.has(n))
		}
	}
	list := own.relayList([]string{"wss://b.example", "nonsense", "wss://relay.example.com", "wss://B.example/", "wss://c.example", "wss://d.example"}, 2)
	if !slices.Equal(list, []string{"wss://b.example", "wss://c.example"}) {
		t.Errorf("%v", list)
	}
}
