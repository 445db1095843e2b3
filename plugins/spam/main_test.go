package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(spam)) }

func note(content string) policytest.Event { return policytest.Event{Kind: 1, Content: content} }

func TestSameTexts(t *testing.T) {
	const base = "Free bitcoin for everybody, only today, 100 each"
	for text, same := range map[string]bool{
		base: true,
		"FREE  BITCOIN\n\nfor everybody -- only today 100 each!!! 🚀🚀":                        true,
		"nostr:npub1abc0 Free bitcoin for everybody, only today, 100 each (nostr:nevent1qq)": true,
		"Fr\u200bee bit\u00adcoin for everybody, only today, 100 e\u0301ach":                 true,
		"\xffFree bitcoin\xc3 for everybody, only today, 100 each":                           true,
		"Free bitcoin for everybody, only today, 101 each":                                   false,
		"Free bitcoin for everybody, only today, 100 each at https://example.com":            false,
		"bitcoin Free for everybody, only today, 100 each":                                   false,
		"Free bitcoin for everybody, only today, 100 eäch":                                   false,
	} {
		a, b := read(base, true), read(text, true)
		if (a.hash == b.hash) != same {
			t.Errorf("%q is the same: %v, want %v", text, !same, same)
		}
	}
	if a, b := read("ÜBER ΩΜΈΓΑ ДА", true), read("über ωμέγα да", true); a.hash != b.hash || a.compared == 0 {
		t.Error("letters that are not of ASCII count by their case")
	}
	long := strings.Repeat("x", comparedBytes)
	if a, b := read(long+" one", true), read(long+" two", true); a.hash != b.hash {
		t.Error("what comes after the first 2 KiB is compared")
	}
}

func TestCopies(t *testing.T) {
	h := policytest.New(t, manifest, new(spam), map[string]any{"max_copies": 3, "copies_minutes": 60})
	post := func(content string, n byte, action policy.Action, rule string) {
		t.Helper()
		e := note(content)
		e.PubKey = policy.PubKey{n}
		h.Want(e, action, rule)
	}
	const text = "one text that is long enough to be compared"
	for n := range byte(3) {
		post(text, n, policy.ActionPass, "")
	}
	post(text, 3, policy.ActionReject, "copies")
	post(strings.ToUpper(text)+"!", 4, policy.ActionReject, "copies")
	post("another "+text, 3, policy.ActionPass, "")
	h.Now += 20*60 - 1
	post(text, 5, policy.ActionReject, "copies")
	h.Now++
	post(text, 5, policy.ActionPass, "")
	post(text, 5, policy.ActionReject, "copies")
	for range 10 {
		post("good morning, everybody", 1, policy.ActionPass, "")
		post("🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀", 1, policy.ActionPass, "")
		h.Want(policytest.Event{Kind: 1617, Content: text}, policy.ActionPass, "")
		h.Want(policytest.Event{Kind: 30078, Content: text}, policy.ActionPass, "")
	}
	// Posts of trusted people do not use up what others may post.
	h.Sets = map[string][]string{"trusted": {policy.PubKey{9}.String()}}
	for range 10 {
		post("a text of somebody trusted, who repeats it", 9, policy.ActionPass, "")
	}
	post("a text of somebody trusted, who repeats it", 8, policy.ActionPass, "")
}

func TestAddresses(t *testing.T) {
	for content, want := range map[string]text{
		"":                         {},
		"a b\tc\n":                 {bytes: 3},
		"https://a.b/c (http://d)": {bytes: 23, links: 2, linkBytes: 22},
		"seehttps://a":             {bytes: 12, links: 1, linkBytes: 9},
		"https:/a http:// ftp://x": {bytes: 22, links: 1, linkBytes: 7},
		"hhhttp://nnnostr:npub1a":  {bytes: 23, links: 1, linkBytes: 21},
		"nostr:npub1a,NOSTR:NPUB1b;nostr:nprofile1cnostr:note1d nostr: nostr:npub": {bytes: 70, mentions: 3},
		"@npub1a nostr npub1b": {bytes: 18},
	} {
		got := read(content, true)
		got.hash, got.compared, got.looked = 0, 0, 0
		if got != want {
			t.Errorf("%q: %+v, want %+v", content, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	mentions := func(n int) [][]string {
		return slices.Repeat([][]string{{"p", strings.Repeat("ab", 32)}}, n)
	}
	links := func(n int, text string) string {
		return strings.Repeat("https://example.com/"+strings.Repeat("x", 80)+" ", n) + text
	}
	for _, test := range []struct {
		name  string
		event policytest.Event
		rule  string
	}{
		{"50 people", policytest.Event{Kind: 1, Tags: mentions(50)}, ""},
		{"51 people", policytest.Event{Kind: 1, Tags: mentions(51)}, "mentions"},
		{"51 people at the end", policytest.Event{Kind: 1, Tags: append(slices.Repeat([][]string{{"t", "x"}}, 500), mentions(51)...)}, "mentions"},
		{"500 other tags", policytest.Event{Kind: 1, Tags: slices.Repeat([][]string{{"e", strings.Repeat("ab", 32)}}, 500)}, ""},
		{"500 people that are none", policytest.Event{Kind: 1, Tags: slices.Repeat([][]string{{"p", strings.Repeat("x", 100)}}, 500)}, ""},
		{"50 in the text", note(strings.Repeat("nostr:npub1a ", 50)), ""},
		{"51 in the text", note(strings.Repeat("nostr:npub1a ", 51)), "mentions"},
		{"51 in the text, much later", note(strings.Repeat("x", readBytes) + strings.Repeat("nostr:npub1a ", 51)), ""},
		{"20 links", note(links(20, strings.Repeat("and text ", 100))), ""},
		{"21 links", note(links(21, strings.Repeat("and text ", 100))), "links"},
		{"7 links alone", note(links(7, "")), ""},
		{"8 links alone", note(links(8, "")), "link-percent"},
		{"8 links and text", note(links(8, strings.Repeat("and text ", 20))), ""},
	} {
		h := policytest.New(t, manifest, new(spam), nil)
		if v := h.Admit(test.event); v.Rule != test.rule {
			t.Errorf("%s: by %q, want %q", test.name, v.Rule, test.rule)
		}
		// 0 is no limit.
		h = policytest.New(t, manifest, new(spam), map[string]any{"max_copies": 0, "max_mentions": 0, "max_links": 0, "max_link_percent": 0})
		h.Want(test.event, policy.ActionPass, "")
	}
}

func TestHostileEvents(t *testing.T) {
	h := policytest.New(t, manifest, new(spam), map[string]any{"kinds": []any{}, "max_copies": 1000000})
	for name, e := range map[string]policytest.Event{
		"tags":          {Tags: make([][]string, 100_000)},
		"one p tag":     {Tags: [][]string{{"p", strings.Repeat("é", 100_000)}}},
		"no UTF-8":      {Content: strings.Repeat("\xff\xc3\xed\xa0", 50_000)},
		"controls":      {Content: strings.Repeat("\x00\u202e\u200d", 50_000)},
		"no word ends":  {Content: strings.Repeat("h", 500_000)},
		"almost links":  {Content: strings.Repeat("https:/", 70_000)},
		"almost nostr":  {Content: strings.Repeat("nostr", 100_000) + ":"},
		"spaces":        {Content: strings.Repeat(" ", 500_000)},
		"other letters": {Content: strings.Repeat("Ȿ漢ﬀ", 50_000)},
		"accents":       {Content: "a" + strings.Repeat("\u0301", 200_000)},
	} {
		if v := h.Admit(e); v.Action != policy.ActionPass {
			t.Errorf("%s: %+v", name, v)
		}
		e.Tags, e.Content = e.Tags[:min(len(e.Tags), 5000)], e.Content[:min(len(e.Content), 5000)]
		h.WantNoAllocations(e)
	}
	h.WantNoAllocations(note(strings.Repeat("nostr:npub1x", 400)))
	h.WantNoAllocations(note(strings.Repeat("https://x ", 400)))
	if _, err := policytest.Configure(t, manifest, new(spam), map[string]any{"kinds": []any{"x"}}); err == nil || !strings.Contains(err.Error(), "config kinds") {
		t.Errorf("a wrong kind: %v", err)
	}
}

func BenchmarkNote(b *testing.B) {
	h := policytest.New(b, manifest, new(spam), map[string]any{"max_copies": 1000000})
	request := h.Request(note(strings.Repeat("Übergröße and nothing else https://example.com/"+strconv.Itoa(7)+" ", 8)))
	for b.Loop() {
		h.Decide(request)
	}
}
