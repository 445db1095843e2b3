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
	eventID = "46d731680add2990efe1cc619dc9b8014feeb23261ab9dee50e9d11814de5a2b"
	note    = "note1gmtnz6q2m55epmlpe3semjdcq987av3jvx4emmjsa8g3s9x7tg4sclreky"

	neventID = "acc6d53b163b0a5b3b18416370dd9343f26332c0ab56f42403d26997c0375703"
	nevent   = "nevent1qqs2e3k48vtrkzjm8vvyzcmsmkf58unrxtq2k4h5yspay6vhcqm4wqcpz9mhxue69uhkummnw3ezuamfdejj7q3ql2vyh47mk2p0qlsku7hg0vn29faehy9hy34ygaclpn66ukqp3afqxpqqqqqqz7ttjyq"
	lateID   = "e4aefe5032bf06ab6a18d2a9c105458c8e19e4738702ddc694a375b4703f3d4a"
	late     = "nevent1qvzqqqqqqypzqwlsccluhy6xxsr6l9a9uhhxf75g85g8a709tprjcn4e42h053vaqqswfth72qet7p4tdgvd92wpq4zcerseu3ecwqkac622xad5wqln6jsta5zpv"
)

// encode writes bech32, so that tests can have a right checksum around anything.
func encode(prefix string, data []byte) string {
	var words []byte
	acc, bits := uint32(0), 0
	for _, b := range data {
		acc, bits = acc<<8|uint32(b), bits+8
		for bits >= 5 {
			bits -= 5
			words = append(words, byte(acc>>bits)&31)
		}
	}
	if bits > 0 {
		words = append(words, byte(acc<<(5-bits))&31)
	}
	return encodeWords(prefix, words)
}

func encodeWords(prefix string, words []byte) string {
	sum := uint32(1)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]>>5)
	}
	sum = polymod(sum, 0)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]&31)
	}
	for _, w := range words {
		sum = polymod(sum, w)
	}
	for range 6 {
		sum = polymod(sum, 0)
	}
	sum ^= 1
	out := prefix + "1"
	for _, w := range words {
		out += charset[w : w+1]
	}
	for i := range 6 {
		w := sum >> (5 * (5 - i)) & 31
		out += charset[w : w+1]
	}
	return out
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

func TestSharedEventVectors(t *testing.T) {
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
		Invalid []json.RawMessage
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, v := range vectors.Valid {
		seen[v.Type]++
		want := ""
		switch v.Type {
		case "note":
			want = v.Data.(string)
		case "nevent":
			want = v.Data.(map[string]any)["id"].(string)
		}
		got, err := ParseEventID(v.Code)
		if want == "" && err == nil {
			t.Errorf("%s %s was decoded as an event", v.Type, v.Code)
		}
		if want != "" && (err != nil || hex.EncodeToString(got[:]) != want) {
			t.Errorf("ParseEventID(%s) = %x, %v; want %s", v.Code, got, err, want)
		}
	}
	if seen["note"] == 0 || seen["nevent"] == 0 {
		t.Errorf("the vectors have %v", seen)
	}
	for _, raw := range vectors.Invalid {
		var v struct{ Code string }
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		if got, err := ParseEventID(v.Code); err == nil {
			t.Errorf("ParseEventID(%q) = %x, want an error", v.Code, got)
		}
	}
}

func FuzzParseEventID(f *testing.F) {
	for _, s := range []string{note, nevent, late, eventID, npub} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { ParseEventID(s) })
}
