package nip19

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
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

func TestSharedVectors(t *testing.T) {
	const file = "../../../shared/data/nip19.json"
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is absent", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	type vector struct {
		Code string
		Type string
		Data any
	}
	var vectors struct {
		Valid   []vector
		Invalid []json.RawMessage
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, v := range vectors.Valid {
		got, err := DecodeNpub(v.Code)
		if v.Type != "npub" {
			if err == nil {
				t.Errorf("%s %s was decoded as an npub", v.Type, v.Code)
			}
			continue
		}
		seen++
		if err != nil || hex.EncodeToString(got[:]) != v.Data {
			t.Errorf("DecodeNpub(%s) = %x, %v; want %v", v.Code, got, err, v.Data)
		}
	}
	if seen == 0 {
		t.Error("the vectors have no npub")
	}
	for _, raw := range vectors.Invalid {
		var v vector
		var code string
		if json.Unmarshal(raw, &code) != nil {
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatal(err)
			}
			code = v.Code
		}
		if got, err := DecodeNpub(code); err == nil {
			t.Errorf("DecodeNpub(%q) = %x, want an error", code, got)
		}
	}
}

func FuzzParsePubKey(f *testing.F) {
	f.Add(npub)
	f.Add(key)
	f.Fuzz(func(t *testing.T, s string) { ParsePubKey(s) })
}
