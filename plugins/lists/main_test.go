package main

import (
	"strconv"
	"strings"
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

const (
	npub = "npub1zutzeysacnf9rru6zqwmxd54mud0k44tst6l70ja5mhv8jjumytsd2x7nu"
	hexa = "17162c921dc4d2518f9a101db33695df1afb56ab82f5ff3e5da6eec3ca5cd917"
)

func listed(t *testing.T) policy.PubKey {
	t.Helper()
	key, err := policy.ParsePubKey(npub)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(lists)) }

// TestLists has what the vectors do not.
func TestLists(t *testing.T) {
	author := listed(t)
	bitcoin := [][]string{{"p", "x"}, {"t", "bitcoin"}}
	tests := []struct {
		name   string
		config map[string]any
		event  policytest.Event
		action policy.Action
		rule   string
	}{
		{"denied hex", map[string]any{"deny_authors": []any{hexa}}, policytest.Event{PubKey: author}, policy.ActionReject, "deny-author"},
		{"other author", map[string]any{"deny_authors": []any{npub}}, policytest.Event{}, policy.ActionPass, ""},
		{"denied kind", map[string]any{"deny_kinds": []any{"4", "30000-39999"}}, policytest.Event{Kind: 4}, policy.ActionReject, "deny-kind"},
		{"kind as a number", map[string]any{"deny_kinds": []any{int64(4)}}, policytest.Event{Kind: 4}, policy.ActionReject, "deny-kind"},
		{"other value", map[string]any{"deny_tags": []any{"t:nostr"}}, policytest.Event{Tags: bitcoin}, policy.ActionPass, ""},
		{"any value", map[string]any{"deny_tags": []any{"t:nostr", "t"}}, policytest.Event{Tags: bitcoin}, policy.ActionReject, "deny-tag"},
		{"value with colons", map[string]any{"deny_tags": []any{"a:30023:x:y"}}, policytest.Event{Tags: [][]string{{"a", "30023:x:y"}}}, policy.ActionReject, "deny-tag"},
		{"tag without a value", map[string]any{"deny_tags": []any{"-"}}, policytest.Event{Tags: [][]string{{"-"}}}, policy.ActionReject, "deny-tag"},
		{"shadow", map[string]any{"deny_words": []any{"x"}, "shadow": []any{"deny-word"}}, policytest.Event{Content: "x"}, policy.ActionShadowReject, "deny-word"},
		{"shadow of another rule", map[string]any{"deny_words": []any{"x"}, "shadow": []any{"only-words"}}, policytest.Event{Content: "x"}, policy.ActionReject, "deny-word"},
		{"in a set", map[string]any{"deny_authors": []any{"set:bad", npub}}, policytest.Event{PubKey: policy.PubKey{7}}, policy.ActionReject, "deny-author"},
		{"in no set", map[string]any{"deny_authors": []any{"set:bad", "set:none"}}, policytest.Event{PubKey: author}, policy.ActionPass, ""},
		{"only a set", map[string]any{"only_authors": []any{"set:bad"}}, policytest.Event{PubKey: author}, policy.ActionReject, "only-authors"},
		{"only one of a set", map[string]any{"only_authors": []any{"set:bad"}}, policytest.Event{PubKey: policy.PubKey{7}}, policy.ActionPass, ""},
		{"no such word", map[string]any{"deny_words": []any{"viagra"}}, policytest.Event{Content: "buy viagr a"}, policy.ActionPass, ""},

		{"only this author", map[string]any{"only_authors": []any{npub}}, policytest.Event{PubKey: author}, policy.ActionPass, ""},
		{"only other kinds", map[string]any{"only_kinds": []any{"0", "1"}}, policytest.Event{Kind: 2}, policy.ActionReject, "only-kinds"},
		{"only other tags", map[string]any{"only_tags": []any{"t:nostr"}}, policytest.Event{Tags: bitcoin}, policy.ActionReject, "only-tags"},
		{"only other words", map[string]any{"only_words": []any{"nostr"}}, policytest.Event{Content: "bitcoin"}, policy.ActionReject, "only-words"},

		{"accepted kind", map[string]any{"accept_kinds": []any{"0"}}, policytest.Event{Kind: 0}, policy.ActionAccept, "accept-kind"},
		{"accepted tag", map[string]any{"accept_tags": []any{"t:bitcoin"}}, policytest.Event{Tags: bitcoin}, policy.ActionAccept, "accept-tag"},
		{"accepted word", map[string]any{"accept_words": []any{"gm"}}, policytest.Event{Content: "GM"}, policy.ActionAccept, "accept-word"},
		{"not accepted passes", map[string]any{"accept_authors": []any{npub}}, policytest.Event{}, policy.ActionPass, ""},

		{"deny beats only", map[string]any{"deny_kinds": []any{"1"}, "only_kinds": []any{"1"}},
			policytest.Event{Kind: 1}, policy.ActionReject, "deny-kind"},
		{"only beats accept", map[string]any{"only_kinds": []any{"0"}, "accept_authors": []any{npub}},
			policytest.Event{Kind: 1, PubKey: author}, policy.ActionReject, "only-kinds"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := policytest.New(t, manifest, new(lists), test.config)
			h.Sets = map[string][]string{"bad": {policy.PubKey{7}.String()}}
			v := h.Admit(test.event)
			if v.Action != test.action || v.Rule != test.rule {
				t.Errorf("%v by %q, want %v by %q", v.Action, v.Rule, test.action, test.rule)
			}
			if v.Action == policy.ActionReject && !strings.HasPrefix(v.Reason(), "blocked: ") {
				t.Errorf("reason %q", v.Reason())
			}
		})
	}
}

func TestWrongValues(t *testing.T) {
	for _, test := range []struct {
		key   string
		value any
		want  string
	}{
		{"deny_authors", []any{"npub1nope"}, `config deny_authors has "npub1nope": want an npub`},
		{"only_authors", []any{strings.Replace(npub, "zutz", "zuty", 1)}, "checksum"},
		{"messages", []any{"deny-words: x"}, `config messages has "deny-words: x": want RULE: text`},
		{"messages", []any{"deny-word:"}, "want RULE: text"},
		{"shadow", []any{"accept-word"}, `config shadow has "accept-word": want a rule that refuses`},
		{"deny_authors", []any{"set:"}, `config deny_authors has "set:": want set:NAME`},
		{"deny_words", []any{"\u200b"}, "want a word with a character that can be seen"},
		{"deny_kinds", []any{"65536"}, `config deny_kinds has "65536": want a kind from 0 to 65535`},
		{"deny_tags", []any{":x"}, `config deny_tags has ":x"`},
		{"deny_words", []any{"fine", ""}, `config deny_words has ""`},
		{"deny_words", "spam", `config deny_words = "spam": want a list of strings`},
		{"deny_word", []any{"spam"}, "one of the keys deny_authors, "},
	} {
		_, err := policytest.Configure(t, manifest, new(lists), map[string]any{test.key: test.value})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s = %v: %v, want %q in it", test.key, test.value, err, test.want)
		}
	}
}

func TestConfigureReplacesTheListsBefore(t *testing.T) {
	p := new(lists)
	policytest.New(t, manifest, p, map[string]any{"deny_kinds": []any{"1"}})
	policytest.New(t, manifest, p, nil).Want(policytest.Event{Kind: 1}, policy.ActionPass, "")
}

func TestDecisionAllocatesNothing(t *testing.T) {
	h := policytest.New(t, manifest, new(lists), map[string]any{
		"deny_authors": []any{npub}, "deny_kinds": []any{"4"}, "deny_tags": []any{"t:spam"},
		"deny_words": []any{"spam", "Größe"}, "accept_authors": []any{npub},
	})
	h.WantNoAllocations(policytest.Event{
		Kind: 1, Content: strings.Repeat("Übergröße and nothing else ", 40), Tags: [][]string{{"t", "x"}, {"p", hexa}},
	})
}

// The description says that not everything is taken where something must be on a
// list.
func TestDescribe(t *testing.T) {
	for key, want := range map[string]policy.Writes{
		"only_kinds": policy.WritesRestricted, "only_words": policy.WritesRestricted,
		"deny_kinds": policy.WritesUnsaid, "accept_kinds": policy.WritesUnsaid,
	} {
		h := policytest.New(t, manifest, new(lists), map[string]any{key: []any{"1"}})
		if h.About.Writes != want {
			t.Errorf("%s: %v, want %v", key, h.About.Writes, want)
		}
	}
}

func TestKeySet(t *testing.T) {
	var keys []policy.PubKey
	for i := range 1000 {
		// Many keys share a start, as an attacker may choose them.
		keys = append(keys, policy.PubKey{byte(i % 3), 0, 0, 0, byte(i), byte(i >> 8), 1})
	}
	set := newKeySet(append(keys, keys[:10]...))
	for _, key := range keys {
		if !set.has(&key) {
			t.Fatalf("%v is missing", key)
		}
		key[31] = 1
		if set.has(&key) {
			t.Fatalf("%v is in the set", key)
		}
	}
	if set.has(&policy.PubKey{}) || newKeySet(nil).has(&policy.PubKey{1}) {
		t.Error("a key that was not added is in the set")
	}
}

func TestTexts(t *testing.T) {
	set := newTexts("0")
	for n := 1; n < 3*fewTexts; n++ {
		next := strconv.Itoa(n)
		if set.has(next) {
			t.Errorf("%s is there before it was added", next)
		}
		set.add(next)
		set.add("0")
		for i := range n + 1 {
			if !set.has(strconv.Itoa(i)) {
				t.Errorf("of %d texts, %d is missing", n+1, i)
			}
		}
	}
	if len(set.few)+len(set.many) != 3*fewTexts {
		t.Errorf("%d and %d texts, want %d", len(set.few), len(set.many), 3*fewTexts)
	}
}

func TestOwnMessages(t *testing.T) {
	h := policytest.New(t, manifest, new(lists), map[string]any{"deny_words": []any{"x"}, "only_kinds": []any{"1"}, "messages": []any{"deny-word: no x, please: go away"}})
	if v := h.Admit(policytest.Event{Kind: 1, Content: "x"}); v.Reason() != "blocked: no x, please: go away" {
		t.Errorf("got %q", v.Reason())
	}
	if v := h.Admit(policytest.Event{Kind: 2}); v.Reason() != "blocked: only some kinds are accepted here" {
		t.Errorf("got %q", v.Reason())
	}
}
