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

const (
	eventID = "46d731680add2990efe1cc619dc9b8014feeb23261ab9dee50e9d11814de5a2b"
	note    = "note1gmtnz6q2m55epmlpe3semjdcq987av3jvx4emmjsa8g3s9x7tg4sclreky"

	neventID = "acc6d53b163b0a5b3b18416370dd9343f26332c0ab56f42403d26997c0375703"
	nevent   = "nevent1qqs2e3k48vtrkzjm8vvyzcmsmkf58unrxtq2k4h5yspay6vhcqm4wqcpz9mhxue69uhkummnw3ezuamfdejj7q3ql2vyh47mk2p0qlsku7hg0vn29faehy9hy34ygaclpn66ukqp3afqxpqqqqqqz7ttjyq"
	lateID   = "e4aefe5032bf06ab6a18d2a9c105458c8e19e4738702ddc694a375b4703f3d4a"
	late     = "nevent1qvzqqqqqqypzqwlsccluhy6xxsr6l9a9uhhxf75g85g8a709tprjcn4e42h053vaqqswfth72qet7p4tdgvd92wpq4zcerseu3ecwqkac622xad5wqln6jsta5zpv"
)

// encode writes bech32 as BIP-173 says, so that tests can have a right checksum around
// anything.
func encode(prefix string, fields ...[]byte) string {
	return encodeWords(prefix, wordsOf(fields...))
}

// wordsOf are the groups of five bits of all fields.
func wordsOf(fields ...[]byte) (words []byte) {
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
	return words
}

func encodeWords(prefix string, words []byte) string {
	sum := prefixSum(prefix)
	for _, w := range append(words[:len(words):len(words)], make([]byte, 6)...) {
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

// sharedVectors reads the vectors of NIP-19 that are shared with other programs.
func sharedVectors(t *testing.T) (valid []vector, invalid []string) {
	t.Helper()
	const file = "../../../shared/data/nip19.json"
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is absent", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Valid   []vector
		Invalid []json.RawMessage
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, raw := range vectors.Invalid {
		var v vector
		if json.Unmarshal(raw, &v.Code) != nil {
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatal(err)
			}
		}
		invalid = append(invalid, v.Code)
	}
	return vectors.Valid, invalid
}

type vector struct {
	Code, Type string
	Data       any
}

// TestSharedVectors reads every vector as each kind of code.
func TestSharedVectors(t *testing.T) {
	valid, invalid := sharedVectors(t)
	seen := map[string]int{}
	for _, v := range valid {
		seen[v.Type]++
		want := map[string]string{}
		switch v.Type {
		case "npub", "note":
			want[v.Type] = v.Data.(string)
		case "nevent":
			want["note"] = v.Data.(map[string]any)["id"].(string)
		}
		for kind, decode := range map[string]func(string) ([32]byte, error){"npub": DecodeNpub, "note": ParseEventID} {
			got, err := decode(v.Code)
			if ok := want[kind] != ""; (err == nil) != ok || ok && hex.EncodeToString(got[:]) != want[kind] {
				t.Errorf("%s %s is decoded as %s %x, %v", v.Type, v.Code, kind, got, err)
			}
		}
		if got, err := ParseSecretKey(v.Code); (err == nil) != (v.Type == "nsec") {
			t.Errorf("ParseSecretKey(%s), of type %s, = %x, %v", v.Code, v.Type, got, err)
		}
		if v.Type == "npub" {
			if got := EncodeNpub(bytes32(t, want["npub"])); got != strings.ToLower(v.Code) {
				t.Errorf("EncodeNpub(%s) = %s, want %s", v.Data, got, v.Code)
			}
		}
	}
	if seen["npub"] == 0 || seen["note"] == 0 || seen["nevent"] == 0 {
		t.Errorf("the vectors have %v", seen)
	}
	for _, code := range invalid {
		if got, err := DecodeNpub(code); err == nil {
			t.Errorf("DecodeNpub(%q) = %x, want an error", code, got)
		}
		if got, err := ParseEventID(code); err == nil {
			t.Errorf("ParseEventID(%q) = %x, want an error", code, got)
		}
	}
}

func TestParseEventID(t *testing.T) {
	for text, want := range map[string]string{
		note: eventID, strings.ToUpper(note): eventID, eventID: eventID, strings.ToUpper(eventID): eventID,
		nevent: neventID, strings.ToUpper(nevent): neventID, late: lateID,
	} {
		got, err := ParseEventID(text)
		if err != nil || hex.EncodeToString(got[:]) != want {
			t.Errorf("ParseEventID(%q) = %x, %v", text, got, err)
		}
	}
	id, err := hex.DecodeString(eventID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseEventID(encode("note", id)); err != nil || hex.EncodeToString(got[:]) != eventID {
		t.Fatalf("the encoder of this test is wrong: %x, %v", got, err)
	}
	for name, text := range map[string]string{
		"empty":                     "",
		"a prefix alone":            "note1",
		"a checksum alone":          encode("note", nil),
		"mixed case":                "N" + note[1:],
		"changed":                   strings.Replace(note, "gmtn", "gmtm", 1),
		"outside bech32":            strings.Replace(note, "gmtn", "gmtb", 1),
		"utf-8":                     note[:61] + "é",
		"a Kelvin sign":             strings.Replace(strings.ToUpper(note), "K", "\u212a", 1),
		"a key":                     npub,
		"hex with g":                "g" + eventID[1:],
		"31 bytes":                  encode("note", id[:31]),
		"33 bytes":                  encode("note", append(id[:32:32], 0)),
		"a group too many":          encodeWords("note", make([]byte, 53)),
		"padding that is not zero":  encodeWords("note", append(make([]byte, 51), 1)),
		"a nevent without an id":    encode("nevent", []byte{3, 4, 0, 0, 0, 1}),
		"a nevent of nothing":       encode("nevent", nil),
		"an id of 31 bytes":         encode("nevent", append([]byte{0, 31}, id[:31]...)),
		"a part that is cut short":  encode("nevent", append([]byte{0, 32}, id[:31]...)),
		"a part without its length": encode("nevent", []byte{0}),
		"a note in a nevent":        "nevent1" + note[5:],
		"too long":                  encode("nevent", append(append([]byte{0, 32}, id...), make([]byte, 3100)...)),
	} {
		if got, err := ParseEventID(text); err == nil {
			t.Errorf("%s: ParseEventID(%.80q) = %x, want an error", name, text, got)
		}
	}
}

func FuzzParseEventID(f *testing.F) {
	for _, s := range []string{note, nevent, late, eventID, npub} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { ParseEventID(s) })
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
	good := encode("naddr", d, author, kind, []byte{77, 1, 5})
	if got, err := DecodeNaddr(good); err != nil || got.Kind != 30000 || got.D != "d" {
		t.Fatalf("the good one: %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"empty":                          "",
		"no data":                        "naddr1",
		"a checksum alone":               encode("naddr", nil),
		"another prefix":                 encode("nevent", d, author, kind),
		"a longer prefix":                encode("naddr1q", d, author, kind),
		"mixed case":                     "N" + good[1:],
		"changed":                        strings.Replace(good, "q", "p", 1),
		"cut":                            good[:len(good)-1],
		"outside bech32":                 good[:20] + "b" + good[21:],
		"utf-8":                          good[:20] + "é" + good[22:],
		"a sign that is k in lower case": strings.ToUpper(strings.Replace(good, "k", "\u212a", 1)),
		"no identifier":                  encode("naddr", author, kind),
		"no author":                      encode("naddr", d, kind),
		"no kind":                        encode("naddr", d, author),
		"two kinds":                      encode("naddr", d, author, kind, kind),
		"two identifiers":                encode("naddr", d, d, author, kind),
		"a short author":                 encode("naddr", d, []byte{2, 2, 1, 1}, kind),
		"a short kind":                   encode("naddr", d, author, []byte{3, 2, 1, 1}),
		"a large kind":                   encode("naddr", d, author, []byte{3, 4, 0, 1, 0, 0}),
		"a field cut off":                encode("naddr", d, author, kind, []byte{1, 9, 'w'}),
		"a field of one":                 encode("naddr", d, author, kind, []byte{1}),
		"not utf-8":                      encode("naddr", []byte{0, 1, 0xff}, author, kind),
		"too long":                       encode("naddr", d, author, kind, make([]byte, 4000)),
		"five bits too many":             encodeWords("naddr", append(wordsOf(d, author, []byte{3, 4, 0, 0, 0, 3}, []byte{9, 1, 1}), 0)),
	} {
		if got, err := DecodeNaddr(text); err == nil {
			t.Errorf("%s: DecodeNaddr(%q) = %+v, want an error", name, text, got)
		}
	}
}

func FuzzDecodeNaddr(f *testing.F) {
	f.Add(encode("naddr", []byte("\x00\x01d"), append([]byte{2, 32}, make([]byte, 32)...), []byte{3, 4, 0, 0, 0, 3}))
	f.Add("naddr1qqqqqqqq")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := DecodeNaddr(s)
		if err != nil {
			return
		}
		again := encode("naddr", []byte{0, byte(len(a.D))}, []byte(a.D), []byte{2, 32}, a.PubKey[:], []byte{3, 4, 0, 0, byte(a.Kind >> 8), byte(a.Kind)})
		if b, err := DecodeNaddr(again); err != nil || a != b {
			t.Errorf("%q: %+v, and encoded again %+v, %v", s, a, b, err)
		}
	})
}

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
