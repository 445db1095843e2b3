package schnorr

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/host/wire"
	"talon/internal/testkit"
)

func signed(t testing.TB, content string, tags host.Tags) *host.Event {
	t.Helper()
	e := &host.Event{CreatedAt: 1700000000, Kind: 1, Tags: tags, Content: content}
	if err := Sign([32]byte{31: 7}, e); err != nil {
		t.Fatal(err)
	}
	e, err := wire.ParseEvent(e.JSON)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestVerify(t *testing.T) {
	tags := host.Tags{{"e", "a\"b\\c"}, {}, {"\u0001\u001f\u007f", "\b\f\n\r\t"}}
	tests := []struct {
		name   string
		change func(*host.Event)
		want   error
	}{
		{"as signed", func(*host.Event) {}, nil},
		{"other content", func(e *host.Event) { e.Content += "x" }, host.ErrID},
		{"other id", func(e *host.Event) { e.ID[0] ^= 1 }, host.ErrID},
		{"other signature", func(e *host.Event) { e.Sig[63] ^= 1 }, ErrSignature},
		{"zero signature", func(e *host.Event) { e.Sig = host.Sig{} }, ErrSignature},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := signed(t, "héllo \U0001f980 \u0000\u2028", tags)
			tt.change(e)
			if err := Verify(e); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// TestVerifyKeyNotOnCurve checks that a key that is no point of the curve verifies no signature.
func TestVerifyKeyNotOnCurve(t *testing.T) {
	e := signed(t, "", nil)
	for i := range e.PubKey {
		e.PubKey[i] = 0xff
	}
	e.ID = sha256.Sum256(e.AppendCanonical(nil))
	if err := Verify(e); !errors.Is(err, ErrSignature) {
		t.Errorf("got %v, want %v", err, ErrSignature)
	}
}

// The vectors sign arbitrary messages, not events; they show that the keys and
// signatures that BIP-340 refuses are refused here as well.
func TestBIP340Keys(t *testing.T) {
	const path = "../../../shared/data/bip340-test-vectors.csv"
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("the vectors of BIP-340 are not here: %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		if row[1] == "" {
			continue
		}
		var secret [32]byte
		if !host.ParseHex(secret[:], strings.ToLower(row[1])) {
			t.Fatalf("vector %s: secret key %s", row[0], row[1])
		}
		e := &host.Event{CreatedAt: 1, Kind: 1, Content: row[7]}
		if err := Sign(secret, e); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToLower(row[2]); e.PubKey.String() != want {
			t.Errorf("vector %s: public key %v, want %s", row[0], e.PubKey, want)
		}
		if err := Verify(e); err != nil {
			t.Errorf("vector %s: %v", row[0], err)
		}
		e = testkit.SignerOf(secret).Event(1, 1, row[7])
		if err := Verify(e); err != nil {
			t.Errorf("vector %s, signed without C: %v", row[0], err)
		}
	}
}

// TestSignNoKey checks that numbers beyond the order of the curve are refused as keys.
func TestSignNoKey(t *testing.T) {
	order := [32]byte{
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
		0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
	}
	for name, secret := range map[string][32]byte{"zero": {}, "the order": order} {
		e := &host.Event{Kind: 1}
		if err := Sign(secret, e); !errors.Is(err, ErrKey) || e.JSON != nil || e.Sig != (host.Sig{}) {
			t.Errorf("%s: %v, %+v", name, err, e)
		}
		if _, err := PublicKey(secret); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	order[31]--
	if key, err := PublicKey(order); err != nil || key != testkit.SignerOf(order).PubKey {
		t.Errorf("one less than the order: %v, %v", key, err)
	}
}

// The library hashes what it is given, so it must see the same event as CheckID:
// as it is passed to it, and as its own reader reads the text.
func FuzzHash(f *testing.F) {
	for _, e := range []*host.Event{
		signed(f, "", nil),
		signed(f, "\U0001f600\u0000/\u2028\x7f", host.Tags{{}, {"e", "a\"b\\c"}, {"\u0001\u001f", "\b\f\n\r\t"}}),
	} {
		f.Add(e.JSON)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := wire.ParseEvent(data)
		if err != nil {
			return
		}
		want := string(e.AppendCanonical(nil))
		n := libraryEvent(e)
		n.PubKey = e.PubKey.String()
		if got := string(n.Serialize()); got != want {
			t.Fatalf("the library hashes\n%s, want\n%s", got, want)
		}
		var read nostr.Event
		if err := json.Unmarshal(e.JSON, &read); err != nil {
			t.Fatalf("the library refuses %q: %v", e.JSON, err)
		}
		if got := string(read.Serialize()); got != want {
			t.Fatalf("the library reads\n%s, want\n%s", got, want)
		}
	})
}

func TestRealEvents(t *testing.T) {
	for _, name := range []string{"events.jsonl", "nip34.jsonl"} {
		f, err := os.Open("../../../shared/data/" + name)
		if err != nil {
			t.Skipf("the real events are not here: %v", err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		n := 0
		for lines.Scan() {
			n++
			e, err := wire.ParseEvent(lines.Bytes())
			if err != nil {
				t.Errorf("%s:%d: %v", name, n, err)
				continue
			}
			if err := Verify(e); err != nil {
				t.Errorf("%s:%d: %v", name, n, err)
			}
		}
		if err := lines.Err(); err != nil || n == 0 {
			t.Errorf("%s: %d events, %v", name, n, err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	e := signed(b, string(make([]byte, 600)), host.Tags{{"e", "x"}, {"p", "y"}, {"t", "z"}, {"a", "w"}})
	b.ReportAllocs()
	for b.Loop() {
		if err := Verify(e); err != nil {
			b.Fatal(err)
		}
	}
}
