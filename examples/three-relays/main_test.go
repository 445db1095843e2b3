package main

import (
	"strings"
	"testing"

	"talon/sdk/strategy"
	"talon/sdk/strategy/strategytest"
)

func TestStories(t *testing.T) {
	strategytest.Stories(t, "testdata/*.txt", manifest, func() strategy.Strategy { return new(three) })
}

func TestWrongRelays(t *testing.T) {
	for want, relays := range map[string][]any{
		"at most three relays": {"wss://a", "wss://b", "wss://c", "wss://d"},
		"a relay, such as":     {"relay.example.com"},
	} {
		_, err := strategytest.Configure(t, manifest, new(three), map[string]any{"relays": relays})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", relays, err, want)
		}
	}
}
