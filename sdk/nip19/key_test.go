package nip19

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

const (
	npub = "npub1zutzeysacnf9rru6zqwmxd54mud0k44tst6l70ja5mhv8jjumytsd2x7nu"
	key  = "17162c921dc4d2518f9a101db33695df1afb56ab82f5ff3e5da6eec3ca5cd917"
)

func TestParsePubKey(t *testing.T) {
	for _, text := range []string{npub, strings.ToUpper(npub), key, strings.ToUpper(key)} {
		got, err := ParsePubKey(text)
		if err != nil || hex.EncodeToString(got[:]) != key {
			t.Errorf("ParsePubKey(%q) = %x, %v", text, got, err)
		}
	}
	for name, text := range map[string]string{
		"empty":          "",
		"mixed case":     "N" + npub[1:],
		"short":          npub[:62],
		"long":           npub + "q",
		"changed":        strings.Replace(npub, "zutz", "zuty", 1),
		"outside bech32": strings.Replace(npub, "zutz", "zutb", 1),
		"other prefix":   "nsec" + npub[4:],
		"hex with g":     "g" + key[1:],
		"hex with utf-8": "é" + key[2:],
		"npub of utf-8":  npub[:61] + "é",
	} {
		if got, err := ParsePubKey(text); err == nil {
			t.Errorf("%s: ParsePubKey(%q) = %x, want an error", name, text, got)
		}
	}
}

// IsNpub agrees with DecodeNpub about what is written in lower case.
func FuzzIsNpub(f *testing.F) {
	f.Add(npub, byte(0), byte(0))
	f.Add(npub, byte(5), byte('Z'))
	f.Add(npub, byte(62), byte('q'))
	f.Add(npub[:62], byte(1), byte('p'))
	f.Fuzz(func(t *testing.T, s string, at, c byte) {
		want, err := DecodeNpub(npub)
		if err != nil {
			t.Fatal(err)
		}
		if b := []byte(s); int(at) < len(b) {
			b[at] = c
			s = string(b)
		}
		got, err := DecodeNpub(s)
		if IsNpub(s, want) != (err == nil && got == want && s == npub) {
			t.Errorf("%q: it is the npub, decoded as %x, %v", s, got, err)
		}
		if err == nil && !IsNpub(strings.ToLower(s), got) {
			t.Errorf("%q is not the npub of %x", s, got)
		}
	})
}

func FuzzParsePubKey(f *testing.F) {
	f.Add(npub)
	f.Add(key)
	f.Fuzz(func(t *testing.T, s string) { ParsePubKey(s) })
}

// From the examples of NIP-19.
const (
	nsec      = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"
	secretHex = "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92ffa"
	npubOf7e  = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg"
	hexOf7e   = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e"
)

func bytes32(t testing.TB, text string) (key [32]byte) {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil || copy(key[:], b) != len(key) {
		t.Fatalf("%q is no key: %v", text, err)
	}
	return key
}

func TestParseSecretKey(t *testing.T) {
	for _, text := range []string{nsec, strings.ToUpper(nsec), secretHex, strings.ToUpper(secretHex)} {
		if got, err := ParseSecretKey(text); err != nil || got != bytes32(t, secretHex) {
			t.Errorf("ParseSecretKey(%q) = %x, %v", text, got, err)
		}
	}
	for name, text := range map[string]string{
		"empty":          "",
		"a prefix alone": "nsec1",
		"mixed case":     "N" + nsec[1:],
		"changed":        strings.Replace(nsec, "vl02", "vl03", 1),
		"a public key":   npub,
		"hex with g":     "g" + secretHex[1:],
		"31 bytes":       encode("nsec", make([]byte, 31)),
		"33 bytes":       encode("nsec", make([]byte, 33)),
		"white space":    nsec + "\n",
	} {
		got, err := ParseSecretKey(text)
		if err == nil || got != [32]byte{} {
			t.Errorf("%s: ParseSecretKey(%q) = %x, %v; want an error and no key", name, text, got, err)
		}
		// A key that was mistyped is still nearly a key.
		if err != nil && len(text) > 8 && strings.Contains(err.Error(), text[4:]) {
			t.Errorf("%s: the error quotes the key: %v", name, err)
		}
	}
}

func TestEncode(t *testing.T) {
	if got := EncodeNsec(bytes32(t, secretHex)); got != nsec {
		t.Errorf("EncodeNsec: %s, want %s", got, nsec)
	}
	if got := EncodeNpub(bytes32(t, hexOf7e)); got != npubOf7e {
		t.Errorf("EncodeNpub: %s, want %s", got, npubOf7e)
	}
}

func FuzzEncodeBech32(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("talon"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 {
			return
		}
		got, err := decodeBech32(nil, "x", encodeBech32("x", data))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%x came back as %x, %v", data, got, err)
		}
	})
}

func FuzzParseSecretKey(f *testing.F) {
	f.Add(nsec)
	f.Add(secretHex)
	f.Fuzz(func(t *testing.T, s string) {
		if key, err := ParseSecretKey(s); err == nil && len(s) != 64 && EncodeNsec(key) != strings.ToLower(s) {
			t.Errorf("%q is not how %x is written", s, key)
		}
	})
}
