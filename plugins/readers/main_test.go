package main

import (
	"slices"
	"strings"
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(rules)) }

func p(values ...string) []policy.TagFilter {
	return []policy.TagFilter{{Name: "p", Values: values}}
}

func TestWhatIsAskedFor(t *testing.T) {
	me, other := policy.PubKey{0xab, 1}, policy.PubKey{2}
	mine := me.String()
	for _, test := range []struct {
		name   string
		filter policy.Filter
		rule   string
	}{
		{"messages to me", policy.Filter{Kinds: []int{4, 1059, 1}, Tags: p(mine)}, ""},
		{"messages to me and another", policy.Filter{Kinds: []int{4}, Tags: p(mine, other.String())}, "private"},
		{"messages from another to me", policy.Filter{Kinds: []int{4}, Authors: []policy.PubKey{other}, Tags: p(mine)}, ""},
		{"messages from me to another", policy.Filter{Kinds: []int{4}, Authors: []policy.PubKey{me}, Tags: p(other.String())}, ""},
		{"messages from me and another", policy.Filter{Kinds: []int{4}, Authors: []policy.PubKey{me, other}}, "private"},
		{"messages to a key in capitals", policy.Filter{Kinds: []int{4}, Tags: p(strings.ToUpper(mine))}, "private"},
		{"messages to a longer key", policy.Filter{Kinds: []int{4}, Tags: p(mine + "0")}, "private"},
		{"messages to nobody", policy.Filter{Kinds: []int{4}, Tags: p()}, "private"},
		{"messages to an empty key", policy.Filter{Kinds: []int{4}, Tags: p("")}, "private"},
		{"messages that name me otherwise", policy.Filter{Kinds: []int{4}, Tags: []policy.TagFilter{{Name: "P", Values: []string{mine}}}}, "private"},
		{"messages by their ids", policy.Filter{Kinds: []int{4}, IDs: []policy.ID{{1}}}, "private"},
		{"messages about an event", policy.Filter{Kinds: []int{4}, Tags: []policy.TagFilter{{Name: "e", Values: []string{"x"}}}}, "private"},
		{"everything", policy.Filter{}, "private"},
		{"everything of a topic", policy.Filter{Tags: []policy.TagFilter{{Name: "t", Values: []string{"x"}}}}, "private"},
		{"everything to me", policy.Filter{Tags: p(mine)}, ""},
		{"everything about a repository", policy.Filter{Tags: []policy.TagFilter{{Name: "a", Values: []string{"30617:x:y"}}}}, ""},
		{"events by their ids", policy.Filter{IDs: []policy.ID{{1}}}, ""},
		{"kinds beside", policy.Filter{Kinds: []int{3, 5, 1058, 1060}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := policytest.New(t, manifest, new(rules), nil)
			h.Authed = []policy.PubKey{{9}, me}
			if v := h.Query(policy.VerbReq, policy.Filter{Kinds: []int{1}}, test.filter); v.Rule != test.rule {
				t.Errorf("by %q (%s), want %q", v.Rule, v.Reason(), test.rule)
			}
			h.Authed = nil
			if v := h.Query(policy.VerbCount, test.filter); (v.Action == policy.ActionRequireAuth) != (test.rule != "" || test.filter.Tags != nil && !strings.Contains(test.name, "repository")) {
				t.Errorf("a stranger: %v by %q", v.Action, v.Rule)
			}
		})
	}
}

// TestStricterRulesFirst: a member of the readers still reads nobody else's messages.
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
		{policy.PubKey{1}, policy.Filter{Kinds: []int{1, 4}}, "private"},
		{policy.PubKey{2}, policy.Filter{Kinds: []int{1, 4}}, "readers"},
		{policy.PubKey{2}, policy.Filter{Kinds: []int{2}}, ""},
		{policy.PubKey{2}, policy.Filter{}, "readers"},
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
