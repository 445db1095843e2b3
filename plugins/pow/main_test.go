package main

import (
	"strings"
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(pow)) }

// zeros is an id with n leading zero bits.
func zeros(n int) (id policy.ID) {
	for i := n; i < 256; i++ {
		id[i/8] |= 1 << (7 - i%8)
	}
	return id
}

func TestDifficulty(t *testing.T) {
	for n := range 257 {
		if got := difficulty(zeros(n)); got != n {
			t.Errorf("difficulty %d, want %d", got, n)
		}
	}
	for _, test := range []struct {
		demand, found int
		reason        string
	}{
		{256, 255, "pow: difficulty 255 is less than 256"},
		{1, 0, "pow: difficulty 0 is less than 1"},
		{1, 1, ""},
		{20, 19, "pow: difficulty 19 is less than 20"},
		{20, 21, ""},
	} {
		h := policytest.New(t, manifest, new(pow), map[string]any{"min_bits": test.demand, "commit": false})
		if v := h.Admit(policytest.Event{ID: zeros(test.found), Kind: 1}); v.Reason() != test.reason {
			t.Errorf("%+v: %s", test, v.Reason())
		}
	}
}

func TestTarget(t *testing.T) {
	h := policytest.New(t, manifest, new(pow), map[string]any{"min_bits": 16})
	for _, test := range []struct {
		nonce []string
		found string // the target as the refusal says it, "" if it is enough
	}{
		{[]string{"nonce", "1", "16"}, ""},
		{[]string{"nonce", "1", "016"}, ""},
		{[]string{"nonce", "1", "999"}, ""},
		{[]string{"nonce", "1", "15"}, "15"},
		{[]string{"nonce", "1", "0016"}, "0"},
		{[]string{"nonce", "1", "-16"}, "0"},
		{[]string{"nonce", "1", "1６"}, "0"},
		{[]string{"nonce", "1", "16 "}, "0"},
		{[]string{"nonce", "1", ""}, "0"},
		{[]string{"nonce", "16"}, "0"},
		{[]string{"nonce"}, "0"},
		{[]string{"Nonce", "1", "16"}, "0"},
	} {
		// Only the first nonce tag counts.
		e := policytest.Event{ID: zeros(30), Kind: 1, Tags: [][]string{{"t", "x"}, test.nonce}}
		if test.nonce[0] == "nonce" {
			e.Tags = append(e.Tags, []string{"nonce", "1", "16"})
		}
		want := ""
		if test.found != "" {
			want = "pow: the committed target " + test.found + " is less than 16 (third item of the nonce tag)"
		}
		if v := h.Admit(e); v.Reason() != want {
			t.Errorf("%q: %q, want %q", test.nonce, v.Reason(), want)
		}
		h.WantNoAllocations(e)
	}
}

func TestClasses(t *testing.T) {
	h := policytest.New(t, manifest, new(pow), map[string]any{
		"min_bits": 8, "class_bits": []any{"git:0", "ephemeral:4", "replaceable:12"}, "commit": false,
	})
	for kind, demand := range map[int]int{1: 8, 30023: 8, 0: 12, 10002: 12, 20001: 4, 1617: 0, 30617: 0, 30618: 0} {
		h.Want(policytest.Event{ID: zeros(demand), Kind: kind}, policy.ActionPass, "")
		if demand > 0 {
			h.Want(policytest.Event{ID: zeros(demand - 1), Kind: kind}, policy.ActionReject, "difficulty")
		}
	}
	h = policytest.New(t, manifest, new(pow), map[string]any{"min_bits": 0})
	h.Want(policytest.Event{ID: zeros(0), Kind: 1}, policy.ActionPass, "")
	if _, err := policytest.Configure(t, manifest, new(pow), map[string]any{"class_bits": []any{"git:257"}}); err == nil || !strings.Contains(err.Error(), `config class_bits has "git:257": want class:number`) {
		t.Errorf("a wrong number of bits: %v", err)
	}
}

func TestHostileEvents(t *testing.T) {
	h := policytest.New(t, manifest, new(pow), nil)
	for _, e := range []policytest.Event{
		{Tags: make([][]string, 100_000)},
		{Tags: [][]string{{"nonce", strings.Repeat("é", 100_000), strings.Repeat("9", 100_000)}}},
		{Tags: [][]string{{"nonce", "", "\xff\x00"}}},
		{Content: strings.Repeat("\u202e", 100_000)},
	} {
		e.ID, e.Kind = zeros(40), 1
		h.Want(e, policy.ActionReject, "target")
		h.WantNoAllocations(e)
		e.ID = zeros(3)
		h.Want(e, policy.ActionReject, "difficulty")
		h.WantNoAllocations(e)
	}
}
