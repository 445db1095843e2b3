package main

import (
	"testing"

	"talon/host"
)

// TestClaims: Talon is wrong about a relay if it lacks one event of it for ten looks in a row, and
// calls it complete at each of them.
func TestClaims(t *testing.T) {
	var c claims
	one, two := host.ID{1}, host.ID{2}
	complete := []int{0, 1}
	look := func(lacks ...host.ID) int { return c.count(lacks, func(host.ID) []int { return complete }) }
	for n := range claimLooks - 1 {
		if wrong := look(one); wrong != 0 {
			t.Fatalf("look %d: %d wrong", n, wrong)
		}
	}
	if wrong := look(two); wrong != 0 {
		t.Errorf("another event: %d wrong", wrong)
	}
	for range claimLooks - 1 {
		look(two, one)
	}
	if wrong := look(two); wrong != 2 {
		t.Errorf("%d wrong, want both relays", wrong)
	}
	complete = nil
	if wrong := look(two); wrong != 0 {
		t.Errorf("%d wrong that nobody calls complete", wrong)
	}
}
