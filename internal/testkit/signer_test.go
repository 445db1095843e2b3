package testkit

import (
	"encoding/csv"
	"encoding/hex"
	"os"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"talon/host"
)

// The signatures of BIP-340's vectors are those that the signer makes, and those
// that are said to be wrong do not verify.
func TestBIP340(t *testing.T) {
	f, err := os.Open("../../../shared/data/bip340-test-vectors.csv")
	if err != nil {
		t.Skipf("the vectors of BIP-340 are not here: %v", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	signed, verified := 0, 0
	for _, row := range rows[1:] {
		message := decode(t, row[4])
		if len(message) != 32 {
			continue // an event's id has 32 bytes
		}
		public, signature := decode(t, row[2]), decode(t, row[5])
		if row[1] != "" {
			signed++
			s := SignerOf([32]byte(decode(t, row[1])))
			if s.PubKey != host.PubKey(public) {
				t.Errorf("vector %s: public key %v, want %x", row[0], s.PubKey, public)
			}
			got := s.signature([32]byte(message), schnorr.CustomNonce([32]byte(decode(t, row[3]))))
			if got != host.Sig(signature) {
				t.Errorf("vector %s: signature %v, want %x", row[0], got, signature)
			}
		}
		verified++
		if got, want := valid(public, message, signature), row[6] == "TRUE"; got != want {
			t.Errorf("vector %s (%s): valid is %v, want %v", row[0], row[7], got, want)
		}
	}
	if signed < 4 || verified < 15 {
		t.Errorf("%d signatures made and %d verified: vectors are missing", signed, verified)
	}
}

func TestSign(t *testing.T) {
	for _, n := range []byte{1, 2, 7, 99, 254} {
		s := NewSigner(n)
		e := s.Event(1, 1700000000, "héllo\n\"", host.Tag{"e", "x"}, host.Tag{})
		if err := e.CheckID(); err != nil || e.PubKey != s.PubKey || !valid(s.PubKey[:], e.ID[:], e.Sig[:]) {
			t.Errorf("signer %d: %s, %v", n, e.JSON, err)
		}
		if again := s.Event(1, 1700000000, "héllo\n\"", host.Tag{"e", "x"}, host.Tag{}); string(again.JSON) != string(e.JSON) {
			t.Errorf("signer %d: the same event is\n%s and then\n%s", n, e.JSON, again.JSON)
		}
	}
}

func valid(public, message, signature []byte) bool {
	key, err := schnorr.ParsePubKey(public)
	if err != nil {
		return false
	}
	s, err := schnorr.ParseSignature(signature)
	return err == nil && s.Verify(message, key)
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
