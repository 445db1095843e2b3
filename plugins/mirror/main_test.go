package main

import (
	"testing"

	"talon/internal/testkit"
	"talon/sdk/strategy"
	"talon/sdk/strategy/strategytest"
)

func TestStories(t *testing.T) {
	strategytest.Stories(t, "testdata/*.txt", manifest, func() strategy.Strategy { return new(mirror) })
}

// TestManyRelays: with 300 relays and 100 connections nothing is lost either.
func TestManyRelays(t *testing.T) {
	strategytest.ConvergesOn(t, manifest, new(mirror), map[string]any{"visit_hours": int64(2)}, 1, 300)
}

// TestConverges: whatever fails, nothing is lost.
func TestConverges(t *testing.T) {
	for seed := range uint64(testkit.Sized(3, 10)) {
		strategytest.Converges(t, manifest, new(mirror), nil, seed)
		// Everything is reopened often, and while something else is on its way.
		strategytest.Converges(t, manifest, new(mirror), map[string]any{"consolidate_above_filters": int64(12)}, seed)
		// After an absence nothing is fetched again by a later check.
		strategytest.Converges(t, manifest, new(mirror), map[string]any{"check_minutes_pages": int64(525600)}, seed)
		// There are twice as many relays as connections.
		strategytest.Converges(t, manifest, new(mirror), map[string]any{"max_relays": int64(3), "visit_hours": int64(1)}, seed)
		// One relay after the other, one of each repository.
		strategytest.Converges(t, manifest, new(mirror), map[string]any{"relays_at_once": int64(1), "live_relays": int64(1)}, seed)
	}
}
