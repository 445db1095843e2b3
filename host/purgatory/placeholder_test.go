package purgatory

import "testing"

func TestPlaceholder(t *testing.T) {
	if PlaceholderExpired(since, since+20*60-1) || !PlaceholderExpired(since, since+20*60) || PlaceholderExpired(since, since-1) {
		t.Error("a placeholder is not kept for 20 minutes")
	}
}
