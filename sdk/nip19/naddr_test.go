package nip19

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// naddr encodes fields as BIP-173 says, with some words at the end that no byte
// needs.
func naddr(prefix string, padding int, fields ...[]byte) string {
	var words []byte
	acc, bits := 0, 0
	for _, b := range bytes.Join(fields, nil) {
		acc, bits = acc<<8|int(b), bits+8
		for ; bits >= 5; bits -= 5 {
			words = append(words, byte(acc>>(bits-5)&31))
		}
	}
	if bits > 0 {
		words = append(words, byte(acc<<(5-bits)&31))
	}
	words = append(words, make([]byte, padding)...)
	sum := uint32(1)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]>>5)
	}
	sum = polymod(sum, 0)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]&31)
	}
	for _, w := range append(words, make([]byte, 6)...) {
		sum = polymod(sum, w)
	}
	sum ^= 1
	text := []byte(prefix + "1")
	for _, w := range words {
		text = append(text, charset[w])
	}
	for i := range 6 {
		text = append(text, charset[sum>>(5*(5-i))&31])
	}
	return string(text)
}

// TestDecodeNaddr decodes what go-nostr v0.52.3 made.
func TestDecodeNaddr(t *testing.T) {
	for _, tt := range []struct {
		text string
		kind uint16
		d    string
	}{
		{"naddr1qqzhgctvdahqygqhzckfy8wy6fgclxssrkend9wlrta4d2uz7hlnuhdxampu5hxezupsgqqqw7vslspsv5", 30617, "talon"},
		{"naddr1qqqqz9mhwden5te0wfjkccte9ejhsctdwpkx2tnrdaksz9mhwden5te0da6xsetj9ejhsctdwpkx2tnrdaksygqhzckfy8wy6fgclxssrkend9wlrta4d2uz7hlnuhdxampu5hxezupsgqqqw5cqrflrrs", 30000, ""},
		{"naddr1qqqqygqhzckfy8wy6fgclxssrkend9wlrta4d2uz7hlnuhdxampu5hxezupsgqqqqqpseqjfqd", 3, ""},
		{"naddr1qq5v80xrhnpmesaucw7v80xrhnpmesaucw7v80xrhnpmesaucw7v80xrhnpmesaucw7qygqhzckfy8wy6fgclxssrkend9wlrta4d2uz7hlnuhdxampu5hxezupsgqqqllls28qlmp", 65535, strings.Repeat("ü", 20)},
	} {
		for _, text := range []string{tt.text, strings.ToUpper(tt.text)} {
			got, err := DecodeNaddr(text)
			if err != nil || got.Kind != tt.kind || got.D != tt.d || hex.EncodeToString(got.PubKey[:]) != key {
				t.Errorf("DecodeNaddr(%s) = %+v, %v; want kind %d, d %q", text, got, err, tt.kind, tt.d)
			}
		}
	}
}

func TestDecodeNaddrRefuses(t *testing.T) {
	d, author, kind := []byte("\x00\x01d"), append([]byte{2, 32}, make([]byte, 32)...), []byte{3, 4, 0, 0, 0x75, 0x30}
	good := naddr("naddr", 0, d, author, kind, []byte{77, 1, 5})
	if got, err := DecodeNaddr(good); err != nil || got.Kind != 30000 || got.D != "d" {
		t.Fatalf("the good one: %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"empty":                          "",
		"no data":                        "naddr1",
		"a checksum alone":               naddr("naddr", 0),
		"another prefix":                 naddr("nevent", 0, d, author, kind),
		"a longer prefix":                naddr("naddr1q", 0, d, author, kind),
		"mixed case":                     "N" + good[1:],
		"changed":                        strings.Replace(good, "q", "p", 1),
		"cut":                            good[:len(good)-1],
		"outside bech32":                 good[:20] + "b" + good[21:],
		"utf-8":                          good[:20] + "é" + good[22:],
		"a sign that is k in lower case": strings.ToUpper(strings.Replace(good, "k", "\u212a", 1)),
		"no identifier":                  naddr("naddr", 0, author, kind),
		"no author":                      naddr("naddr", 0, d, kind),
		"no kind":                        naddr("naddr", 0, d, author),
		"two kinds":                      naddr("naddr", 0, d, author, kind, kind),
		"two identifiers":                naddr("naddr", 0, d, d, author, kind),
		"a short author":                 naddr("naddr", 0, d, []byte{2, 2, 1, 1}, kind),
		"a short kind":                   naddr("naddr", 0, d, author, []byte{3, 2, 1, 1}),
		"a large kind":                   naddr("naddr", 0, d, author, []byte{3, 4, 0, 1, 0, 0}),
		"a field cut off":                naddr("naddr", 0, d, author, kind, []byte{1, 9, 'w'}),
		"a field of one":                 naddr("naddr", 0, d, author, kind, []byte{1}),
		"not utf-8":                      naddr("naddr", 0, []byte{0, 1, 0xff}, author, kind),
		"too long":                       naddr("naddr", 0, d, author, kind, make([]byte, 4000)),
		"five bits too many":             naddr("naddr", 1, d, author, []byte{3, 4, 0, 0, 0, 3}, []byte{9, 1, 1}),
	} {
		if got, err := DecodeNaddr(text); err == nil {
			t.Errorf("%s: DecodeNaddr(%q) = %+v, want an error", name, text, got)
		}
	}
}

func FuzzDecodeNaddr(f *testing.F) {
	f.Add(naddr("naddr", 0, []byte("\x00\x01d"), append([]byte{2, 32}, make([]byte, 32)...), []byte{3, 4, 0, 0, 0, 3}))
	f.Add("naddr1qqqqqqqq")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := DecodeNaddr(s)
		if err != nil {
			return
		}
		again := naddr("naddr", 0, []byte{0, byte(len(a.D))}, []byte(a.D), []byte{2, 32}, a.PubKey[:], []byte{3, 4, 0, 0, byte(a.Kind >> 8), byte(a.Kind)})
		if b, err := DecodeNaddr(again); err != nil || a != b {
			t.Errorf("%q: %+v, and encoded again %+v, %v", s, a, b, err)
		}
	})
}
