package store

import (
	"bytes"
	"maps"
	"path/filepath"
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

// What is known of relays survives a restart, one sort beside the other, and what is
// forgotten is gone.
func TestRelays(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	save := func(about string, relays map[string][]byte) {
		t.Helper()
		if err := s.SaveRelays(t.Context(), about, relays); err != nil {
			t.Fatal(err)
		}
	}
	save("health", map[string][]byte{"wss://a": []byte("1"), "wss://b": []byte("2")})
	save("capabilities", map[string][]byte{"wss://a": []byte("3")})
	save("health", map[string][]byte{"wss://a": []byte("4"), "wss://b": nil, "wss://never": nil})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, filepath.Clean(dir))
	for about, want := range map[string]map[string]string{
		"health": {"wss://a": "4"}, "capabilities": {"wss://a": "3"}, "nothing": {},
	} {
		relays, err := s.Relays(t.Context(), about)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for url, text := range relays {
			got[url] = string(text)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s is %v, want %v", about, got, want)
		}
	}
}
