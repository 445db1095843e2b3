package store

import (
	"bytes"
	"testing"
)

// BenchmarkSaveRelays keeps one git server with 256 requests: what happens before a
// request to it begins.
func BenchmarkSaveRelays(b *testing.B) {
	s := reopen(b, b.TempDir())
	record := bytes.Repeat([]byte("1700000000000,"), 256)
	for b.Loop() {
		if err := s.SaveRelays(b.Context(), "git", map[string][]byte{"git.example.com": record}); err != nil {
			b.Fatal(err)
		}
	}
}
