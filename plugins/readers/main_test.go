package main

import (
	"slices"
	"strings"
	"testing"

	"talon/sdk/nip19"
	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(rules)) }

func p(values ...string) []policy.TagFilter {
	return []policy.TagFilter{{Name: "p", Values: values}}
}

func TestWhatIsAskedFor(t *testing.T) {
	for _, test := range []struct {
		name   string
		filter policy.Filter
		rule   string // for a stranger
	}{
		{"messages", policy.Filter{Kinds: []int{4}}, "auth-private"},
		{"messages and gift wraps by their ids", policy.Filter{Kinds: []int{4, 1059}, IDs: []policy.ID{{1}}}, "auth-private"},
		{"gift wraps that nobody keeps", policy.Filter{Kinds: []int{21059}, Tags: p("x")}, "auth-private"},
		{"messages and notes", policy.Filter{Kinds: []int{1, 4}}, ""},
		{"everything", policy.Filter{}, ""},
		{"everything of an author", policy.Filter{Authors: []policy.PubKey{{2}}}, ""},
		{"events by their ids", policy.Filter{IDs: []policy.ID{{1}}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := policytest.New(t, manifest, new(rules), nil)
			if v := h.Query(policy.VerbReq, policy.Filter{Kinds: []int{1}}, test.filter); v.Rule != test.rule {
				t.Errorf("a stranger: by %q (%s), want %q", v.Rule, v.Reason(), test.rule)
			}
			h.Authed = []policy.PubKey{{9}}
			if v := h.Query(policy.VerbCount, test.filter); v.Action != policy.ActionPass {
				t.Errorf("a client with a key: %v by %q", v.Action, v.Rule)
			}
		})
	}
}

// TestStricterRulesFirst asks as several clients.
func TestStricterRulesFirst(t *testing.T) {
	h := policytest.New(t, manifest, new(rules), map[string]any{
		"need_auth": true, "readers_kinds": []any{"1"}, "auth_kinds": []any{"7"}, "open_kinds": []any{"0", "7"},
	})
	h.Sets = map[string][]string{"readers": {policy.PubKey{1}.String()}}
	for _, test := range []struct {
		key    policy.PubKey
		filter policy.Filter
		rule   string
	}{
		{policy.PubKey{1}, policy.Filter{Kinds: []int{1, 2}}, ""},
		{policy.PubKey{1}, policy.Filter{Kinds: []int{1}}, ""},
		{policy.PubKey{2}, policy.Filter{Kinds: []int{1}}, "readers"},
		{policy.PubKey{2}, policy.Filter{Kinds: []int{1, 4}}, ""},
		{policy.PubKey{2}, policy.Filter{}, ""},
		{policy.PubKey{}, policy.Filter{Kinds: []int{2}}, "auth"},
		{policy.PubKey{}, policy.Filter{Kinds: []int{0, 7}}, ""},
		{policy.PubKey{}, policy.Filter{IDs: []policy.ID{{1}}}, "auth"},
	} {
		h.Authed = nil
		if test.key != (policy.PubKey{}) {
			h.Authed = []policy.PubKey{test.key}
		}
		if v := h.Query(policy.VerbReq, test.filter); v.Rule != test.rule {
			t.Errorf("%+v: by %q, want %q", test, v.Rule, test.rule)
		}
	}
}

func TestAudience(t *testing.T) {
	owner := policy.PubKey{7}
	npub := nip19.EncodeNpub(owner)
	h := policytest.New(t, manifest, new(rules), map[string]any{"readers_repositories": []any{npub + "/secret", "hidden"}})
	for _, test := range []struct {
		name  string
		event policytest.Event
		rule  string
	}{
		{"its owner's", policytest.Event{Kind: 30617, PubKey: owner, Tags: [][]string{{"d", "secret"}}}, "repository"},
		{"another owner's", policytest.Event{Kind: 30617, Tags: [][]string{{"d", "secret"}}}, ""},
		{"another of the owner", policytest.Event{Kind: 30617, PubKey: owner, Tags: [][]string{{"d", "open"}}}, ""},
		{"every owner's", policytest.Event{Kind: 30617, Tags: [][]string{{"d", "hidden"}}}, "repository"},
		{"no announcement", policytest.Event{Kind: 30618, PubKey: owner, Tags: [][]string{{"d", "secret"}}}, ""},
	} {
		if v := h.Audience(test.event); v.Rule != test.rule || (v.Set == "readers") != (test.rule != "") {
			t.Errorf("%s: %v by %q to %q, want %q", test.name, v.Action, v.Rule, v.Set, test.rule)
		}
	}
	var tags [][]string
	for i := range 3 * maxAudience {
		tags = append(tags, []string{"p", policy.PubKey{1, byte(i), byte(i >> 8)}.String()})
	}
	if v := h.Audience(policytest.Event{Kind: 4, Tags: tags}); len(v.Keys) != 32*maxAudience {
		t.Errorf("a message to thousands: %d bytes of keys, want %d", len(v.Keys), 32*maxAudience)
	}
	for _, wrong := range []string{"", "npub1x", npub + "/"} {
		_, err := policytest.Configure(t, manifest, new(rules), map[string]any{"readers_repositories": []any{wrong}})
		if err == nil || !strings.Contains(err.Error(), "readers_repositories") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestIdle(t *testing.T) {
	none := map[string]any{"private_kinds": []any{}, "open_kinds": []any{"1"}}
	h := policytest.New(t, manifest, new(rules), none)
	if v := h.Query(policy.VerbReq, policy.Filter{Kinds: []int{4}}); v.Action != policy.ActionPass {
		t.Errorf("without rules: %+v", v)
	}
	for _, key := range []string{"need_auth", "readers_only"} {
		h = policytest.New(t, manifest, new(rules), map[string]any{"private_kinds": []any{}, key: true})
		if v := h.Query(policy.VerbReq, policy.Filter{IDs: []policy.ID{{1}}}); v.Action != policy.ActionRequireAuth {
			t.Errorf("%s: %+v", key, v)
		}
	}
	if _, err := policytest.Configure(t, manifest, new(rules), map[string]any{"auth_kinds": []any{"x"}}); err == nil || !strings.Contains(err.Error(), "config auth_kinds") {
		t.Errorf("a wrong kind: %v", err)
	}
}

// TestHostileFilters: as much as a message can hold, and it allocates nothing.
func TestHostileFilters(t *testing.T) {
	h := policytest.New(t, manifest, new(rules), map[string]any{"need_auth": true, "readers_kinds": []any{"7"}})
	me := policy.PubKey{1}
	h.Authed = []policy.PubKey{{9}, me} // the harness allocates to look into a set
	every := make([]int, 65536)
	for i := range every {
		every[i] = i
	}
	for _, filter := range []policy.Filter{
		{Kinds: every},
		{Kinds: []int{4}, Authors: slices.Repeat([]policy.PubKey{me}, 4000)},
		{Kinds: []int{4}, Tags: p(slices.Repeat([]string{me.String()}, 4000)...)},
		{Kinds: []int{4}, Tags: p("\xff\x00", strings.Repeat("é", 32), strings.Repeat("x", 100_000))},
	} {
		var filters []policy.Filter
		for range 3 {
			filters = append(filters, filter)
		}
		request := h.QueryRequest(policy.VerbReq, filters...)
		if n := testing.AllocsPerRun(10, func() { h.DecideQuery(request) }); n != 0 {
			t.Errorf("a decision allocates %v times, want 0", n)
		}
	}
}

// TestDescribe: a relay with private repositories says so.
func TestDescribe(t *testing.T) {
	if d := policytest.New(t, manifest, new(rules), nil).About; d.Curation != "" {
		t.Errorf("without private repositories: %q", d.Curation)
	}
	h := policytest.New(t, manifest, new(rules), map[string]any{"readers_repositories": []any{"secret"}})
	if !strings.Contains(h.About.Curation, "/auth/") || strings.Contains(h.About.Curation, "secret") {
		t.Errorf("with a private repository: %q", h.About.Curation)
	}
}
