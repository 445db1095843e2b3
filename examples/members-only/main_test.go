package main

import (
	"testing"

	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, members{}) }

func TestDecisionAllocatesNothing(t *testing.T) {
	policytest.New(t, manifest, members{}, nil).WantNoAllocations(policytest.Event{Kind: 1, Content: "hello"})
}
