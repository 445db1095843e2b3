package nip19

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

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

func TestSharedKeyVectors(t *testing.T) {
	const file = "../../../shared/data/nip19.json"
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is absent", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Valid []struct {
			Code, Type string
			Data       any
		}
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	npubs := 0
	for _, v := range vectors.Valid {
		if got, err := ParseSecretKey(v.Code); (err == nil) != (v.Type == "nsec") {
			t.Errorf("ParseSecretKey(%s), of type %s, = %x, %v", v.Code, v.Type, got, err)
		}
		if v.Type != "npub" {
			continue
		}
		npubs++
		if got := EncodeNpub(bytes32(t, v.Data.(string))); got != strings.ToLower(v.Code) {
			t.Errorf("EncodeNpub(%s) = %s, want %s", v.Data, got, v.Code)
		}
	}
	if npubs == 0 {
		t.Error("the vectors have no npub")
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
