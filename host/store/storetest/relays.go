package storetest

import (
	"maps"
	"testing"
)

// What is known of relays survives a restart, one sort beside the other, and what is
// forgotten is gone.
func testRelays(t *testing.T, x Engine) {
	dir := x.New(t)
	s := reopen(t, x, dir)
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
	s = reopen(t, x, dir)
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
	for url, want := range map[string]string{"wss://a": "4", "wss://b": "", "wss://never": ""} {
		if got, err := s.Relay(t.Context(), "health", url); string(got) != want || err != nil {
			t.Errorf("%s is %q, %v; want %q", url, got, err, want)
		}
	}
}
