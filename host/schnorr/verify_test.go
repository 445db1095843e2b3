package schnorr

import (
	"bufio"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"os"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/host/wire"
)

func signed(t testing.TB, content string, tags nostr.Tags) *host.Event {
	t.Helper()
	n := nostr.Event{CreatedAt: 1700000000, Kind: 1, Tags: tags, Content: content}
	if err := n.Sign(nostr.GeneratePrivateKey()); err != nil {
		t.Fatal(err)
	}
	e, err := wire.ParseEvent([]byte(n.String()))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestVerify(t *testing.T) {
	tags := nostr.Tags{{"e", "a\"b\\c"}, {}, {"\u0001\u001f\u007f", "\b\f\n\r\t"}}
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

// A key that is no point of the curve has no signatures at all.
func TestVerifyKeyNotOnCurve(t *testing.T) {
	e := signed(t, "", nil)
	for i := range e.PubKey {
		e.PubKey[i] = 0xff
	}
	e2 := *e
	e2.ID = host.ID{}
	n := nostr.Event{PubKey: e.PubKey.String(), CreatedAt: nostr.Timestamp(e.CreatedAt), Kind: 1, Tags: e.Tags}
	host.ParseHex(e2.ID[:], n.GetID())
	if err := Verify(&e2); !errors.Is(err, ErrSignature) {
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
		// Sign an event with the vector's key: the public key must be the vector's.
		n := nostr.Event{CreatedAt: 1, Kind: 1, Content: row[7]}
		if err := n.Sign(row[1]); err != nil {
			t.Fatal(err)
		}
		key, err := hex.DecodeString(row[2])
		if err != nil {
			t.Fatal(err)
		}
		if n.PubKey != hex.EncodeToString(key) {
			t.Errorf("vector %s: public key %s, want %s", row[0], n.PubKey, row[2])
		}
		e, err := wire.ParseEvent([]byte(n.String()))
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(e); err != nil {
			t.Errorf("vector %s: %v", row[0], err)
		}
	}
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
	e := signed(b, string(make([]byte, 600)), nostr.Tags{{"e", "x"}, {"p", "y"}, {"t", "z"}, {"a", "w"}})
	b.ReportAllocs()
	for b.Loop() {
		if err := Verify(e); err != nil {
			b.Fatal(err)
		}
	}
}
