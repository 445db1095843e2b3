package main

import (
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(allowRate)) }

func TestDecisionAllocatesNothing(t *testing.T) {
	author := policy.PubKey{1}
	h := policytest.New(t, manifest, new(allowRate), map[string]any{"allow": []string{author.String()}, "burst": int64(1_000_000)})
	h.WantNoAllocations(policytest.Event{PubKey: author, Kind: 1, Content: "hello"})
	h.WantNoAllocations(policytest.Event{PubKey: policy.PubKey{2}, Kind: 1, Content: "hello"})
}
