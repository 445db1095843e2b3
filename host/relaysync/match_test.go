package relaysync

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
)

// A matcher says what the filter says, for anything.
func TestMatcher(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(n int) byte { return byte(r.IntN(n)) }
	value := func() string { return string(rune('a' + pick(5))) }
	at := func() *int64 { v := int64(pick(10)); return &v }
	matched, joined := 0, 0
	for range 30_000 {
		e := &host.Event{ID: host.ID{pick(4)}, PubKey: host.PubKey{pick(4)}, Kind: host.Kind(pick(3)), CreatedAt: int64(pick(10))}
		for range pick(5) {
			e.Tags = append(e.Tags, host.Tag{[]string{"a", "e", "E", "long", "q"}[pick(5)], value(), "x"})
		}
		if pick(9) == 0 {
			e.Tags = append(e.Tags, host.Tag{"e"}, host.Tag{})
		}
		f := host.Filter{Limit: -1}
		if pick(4) == 0 {
			f.IDs = []host.ID{{pick(4)}, {pick(4)}}
		}
		if pick(4) == 0 {
			f.Authors = []host.PubKey{{pick(4)}, {pick(4)}}
		}
		if pick(4) == 0 {
			f.Kinds = []host.Kind{host.Kind(pick(3)), host.Kind(pick(3))}
		}
		for _, name := range []byte("aeE") {
			if pick(3) == 0 {
				f.Tags = append(f.Tags, host.TagFilter{Name: name, Values: []string{value(), value()}})
			}
		}
		if pick(4) == 0 {
			f.Since = at()
		}
		if pick(4) == 0 {
			f.Until = at()
		}
		d := digestOf(e)
		m := newMatchers([]host.Filter{f})
		if got, want := m[0].matches(&d), f.Matches(e); got != want {
			t.Fatalf("%+v: %v, want %v for %+v", f, got, want, e)
		} else if got {
			matched++
		}
		// One that is like it, or differs in one thing.
		g := f
		g.Tags = slices.Clone(f.Tags)
		if len(g.Tags) > 0 {
			g.Tags[0].Name = "aeEq"[pick(4)]
		}
		switch pick(8) {
		case 0:
			g.Since = at()
		case 1:
			g.Until = at()
		case 2:
			g.Kinds = []host.Kind{host.Kind(pick(3))}
		case 3:
			g.Kinds = []host.Kind{}
		case 4:
			g.Authors = []host.PubKey{{pick(4)}}
		case 5:
			g.IDs = []host.ID{{pick(4)}}
		case 6:
			if len(g.Tags) > 0 {
				g.Tags[0].Values = []string{value(), value()}
			}
		}
		both := []host.Filter{f, g, f}
		if got, want := anyMatches(newMatchers(both), &d), f.Matches(e) || g.Matches(e); got != want {
			t.Fatalf("%+v: %v, want %v for %+v", both, got, want, e)
		}
		if len(newMatchers(both)) < len(both) {
			joined++
		}
	}
	if joined < 1000 {
		t.Errorf("only %d were joined", joined)
	}
	if matched < 1000 {
		t.Errorf("only %d matched", matched)
	}
}

// Filters for e, E and q tags of the same events are one matcher.
func TestMatchersJoin(t *testing.T) {
	values := []string{"one", "two", "three"}
	var filters []host.Filter
	for _, name := range []byte("eEq") {
		filters = append(filters, host.Filter{Tags: []host.TagFilter{{Name: name, Values: values}}})
	}
	if m := newMatchers(filters); len(m) != 1 || cap(m) != 1 || m[0].tags[0].count != 3 {
		t.Errorf("%d matchers in room for %d: %+v", len(m), cap(m), m)
	}
	filters[2].Tags[0].Values = values[:2]
	if m := newMatchers(filters); len(m) != 2 {
		t.Errorf("%d matchers", len(m))
	}
	filters = nil
	for name := byte('a'); name < 'a'+2*mostNames; name++ {
		filters = append(filters, host.Filter{Tags: []host.TagFilter{{Name: name, Values: values}}})
	}
	if m := newMatchers(filters); len(m) != 2 {
		t.Errorf("%d matchers for %d names", len(m), len(filters))
	}
}

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
	m, err := wire.ParseMessage(appendREQ(nil, "s1", f, host.Filter{Limit: 0}), &wire.DefaultLimits)
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

func TestClass(t *testing.T) {
	for text, want := range map[string]uint32{
		"rate-limited: slow down":                            abi.ClassRateLimited,
		"ERROR: you are sending too fast":                    abi.ClassRateLimited,
		"auth-required: members only":                        abi.ClassAuthRequired,
		"restricted: not you":                                abi.ClassRestricted,
		"blocked: banned":                                    abi.ClassRestricted,
		"unsupported: filter":                                abi.ClassUnsupported,
		"ERROR: bad msg: unknown cmd":                        abi.ClassUnsupported,
		"invalid: no such thing":                             abi.ClassUnsupported,
		"error: too many concurrent REQs":                    abi.ClassTooMuch,
		"blocked: the filter selects more than 1000 records": abi.ClassTooMuch,
		"error: database is down":                            abi.ClassError,
		"hello":                                              abi.ClassOther,
		"":                                                   abi.ClassOther,
		strings.Repeat("x", 100_000) + "rate limit":          abi.ClassOther,
		"closed: the session was idle for too long":          abi.ClassOther,
		"unsupported: negentropy is not supported":           abi.ClassUnsupported,
		"blocked: too many negentropy sessions on this connection":     abi.ClassTooMuch,
		"rate-limited: too many requests, there are more than we like": abi.ClassRateLimited,
	} {
		if got := classOf(text); got != want {
			t.Errorf("%.60q: %d, want %d", text, got, want)
		}
	}
}

func TestSaid(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                          "plain",
		"two\nlines\x1b[31m":             "two lines [31m",
		"not utf-8 \xff":                 "not utf-8 ?",
		strings.Repeat("é", 10_000):      strings.Repeat("é", 126) + "…",
		strings.Repeat("\u2028", 10_000): "",
	} {
		if got := said(in); got != want && want != "" || len(got) > maxReason {
			t.Errorf("%.20q: %q (%d bytes)", in, got, len(got))
		}
	}
}
