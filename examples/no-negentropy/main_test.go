package main

import (
	"testing"

	"talon/sdk/strategy"
	"talon/sdk/strategy/strategytest"
)

func TestStories(t *testing.T) {
	strategytest.Stories(t, "testdata/*.txt", manifest, func() strategy.Strategy { return new(plain) })
}

// TestConverges: whatever fails, nothing is lost.
func TestConverges(t *testing.T) {
	for seed := range uint64(5) {
		strategytest.Converges(t, manifest, new(plain), nil, seed)
	}
}
