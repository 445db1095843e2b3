package nip19

import (
	"bytes"
	"strings"
	"testing"
)

func TestEncodeNaddr(t *testing.T) {
	key := [32]byte(bytes.Repeat([]byte{7}, 32))
	for _, relay := range []string{"", "wss://git.example.com", strings.Repeat("r", 256)} {
		for _, d := range []string{"", "nest", "a:b 🦉", strings.Repeat("n", 255)} {
			want := Naddr{Kind: 30617, PubKey: key, D: d}
			if got, err := DecodeNaddr(EncodeNaddr(want, relay)); err != nil || got != want {
				t.Errorf("%q at %q: %+v, %v", d, relay, got, err)
			}
		}
	}
	if code := EncodeNaddr(Naddr{PubKey: key, D: strings.Repeat("n", 256)}, ""); code != "" {
		t.Errorf("%s holds what no naddr can hold", code)
	}
}

func TestEncodeNevent(t *testing.T) {
	id, author := [32]byte(bytes.Repeat([]byte{1}, 32)), [32]byte(bytes.Repeat([]byte{2}, 32))
	for _, relay := range []string{"", "wss://git.example.com", strings.Repeat("r", 256)} {
		if got, err := ParseEventID(EncodeNevent(id, author, 1621, relay)); err != nil || got != id {
			t.Errorf("at %q: %x, %v", relay, got, err)
		}
	}
}

// The bytes are those of NIP-19, field by field.
func TestEncodedFields(t *testing.T) {
	key := [32]byte(bytes.Repeat([]byte{7}, 32))
	const relay = "wss://x"
	shared := "\x01\x07" + relay + "\x02\x20" + string(key[:]) + "\x03\x04\x00\x00"
	for prefix, c := range map[string]struct{ code, want string }{
		"naddr":  {EncodeNaddr(Naddr{Kind: 30617, PubKey: key, D: "nest"}, relay), "\x00\x04nest" + shared + "\x77\x99"},
		"nevent": {EncodeNevent(key, key, 1621, relay), "\x00\x20" + string(key[:]) + shared + "\x06\x55"},
	} {
		if got, err := decodeBech32(nil, prefix, c.code); err != nil || string(got) != c.want {
			t.Errorf("%s\n%q, %v; want\n%q", prefix, got, err, c.want)
		}
	}
}
