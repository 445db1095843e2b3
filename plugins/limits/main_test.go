package main

import (
	"math"
	"strings"
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func tags(n, size int) [][]string {
	list := make([][]string, n)
	for i := range list {
		list[i] = []string{"t", strings.Repeat("x", size)}
	}
	return list
}

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(limits)) }

// TestLimits has what the vectors do not: both sides of the limits of the defaults, and none.
func TestLimits(t *testing.T) {
	const now = policytest.Now
	none := map[string]any{
		"max_content_bytes": 0, "max_tags": 0, "max_tag_bytes": 0, "max_refs": 0, "max_ref_bytes": 0, "max_age_seconds": 0, "max_future_seconds": 0,
	}
	tests := []struct {
		name   string
		config map[string]any
		event  policytest.Event
		action policy.Action
		reason string
	}{
		{"at the content limit", nil, policytest.Event{Content: strings.Repeat("x", 131072)}, policy.ActionPass, ""},
		{"over the content limit", nil, policytest.Event{Content: strings.Repeat("x", 131073)}, policy.ActionReject,
			"blocked: the content is larger than 131072 bytes"},
		{"at the tag limit", map[string]any{"max_tags": 3}, policytest.Event{Tags: tags(3, 1)}, policy.ActionPass, ""},
		{"as old as it may be", map[string]any{"max_age_seconds": 60}, policytest.Event{CreatedAt: now - 60}, policy.ActionPass, ""},
		{"a little in the future", nil, policytest.Event{CreatedAt: now + 900}, policy.ActionPass, ""},
		{"at the end of time", nil, policytest.Event{CreatedAt: math.MaxInt64}, policy.ActionReject,
			"invalid: created_at is more than 900 seconds in the future"},
		{"no limits", none, policytest.Event{CreatedAt: math.MaxInt64, Tags: tags(20000, 100), Content: strings.Repeat("x", 1<<20)},
			policy.ActionPass, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := policytest.New(t, manifest, new(limits), test.config)
			if v := h.Admit(test.event); v.Action != test.action || v.Reason() != test.reason {
				t.Errorf("%v %q, want %v %q", v.Action, v.Reason(), test.action, test.reason)
			}
		})
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	h := policytest.New(t, manifest, new(limits), nil)
	h.WantNoAllocations(policytest.Event{Kind: 1, Content: "hello", Tags: tags(4, 64)})
	h.WantNoAllocations(policytest.Event{Kind: 1, Content: strings.Repeat("x", 200_000)})
}

func TestIdle(t *testing.T) {
	for name, limit := range map[string]int{"no limit": 0, "one limit": 1} {
		h := policytest.New(t, manifest, new(limits), map[string]any{
			"max_content_bytes": 0, "max_tags": 0, "max_tag_bytes": 0, "max_refs": 0, "max_ref_bytes": 0, "max_age_seconds": 0, "max_future_seconds": limit,
		})
		if v := h.Admit(policytest.Event{CreatedAt: policytest.Now + 2}); (v.Action == policy.ActionReject) != (limit > 0) {
			t.Errorf("%s: %v", name, v)
		}
	}
}
