package main

import (
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(hello)) }

func TestHello(t *testing.T) {
	h := policytest.New(t, manifest, new(hello), map[string]any{"max_capitals": int64(5)})
	h.Want(policytest.Event{Kind: 1, Content: "Hello NOSTR"}, policy.ActionPass, "")
	h.Want(policytest.Event{Kind: 1, Content: "HELLO NOSTR"}, policy.ActionReject, "shouting")
	h.Want(policytest.Event{Kind: 0, Content: "HELLO NOSTR"}, policy.ActionPass, "")
	h.WantNoAllocations(policytest.Event{Kind: 1, Content: "HELLO NOSTR"})
}
