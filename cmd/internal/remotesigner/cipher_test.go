package remotesigner

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestCipher reads both encryptions, and survives whatever else a signer sends.
func TestCipher(t *testing.T) {
	mine, its := nostr.GeneratePrivateKey(), nostr.GeneratePrivateKey()
	public := func(secret string) string {
		key, err := nostr.GetPublicKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	client, err := newCipher(mine, public(its))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := newCipher(its, public(mine))
	if err != nil {
		t.Fatal(err)
	}
	for _, old := range []bool{true, false} {
		sent, err := signer.encrypt("hello", old)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := client.decrypt(sent); !ok || text != "hello" {
			t.Errorf("old=%v: decrypted %q, %v", old, text, ok)
		}
		if got := client.last.Load() == oldEncryption; got != old {
			t.Errorf("old=%v: the last encryption is noted as old=%v", old, got)
		}
	}
	bytes := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, wrong := range []string{
		"", "?iv=", "?iv=" + bytes(16), bytes(16) + "?iv=", bytes(16) + "?iv=" + bytes(15), bytes(17) + "?iv=" + bytes(16),
		bytes(16) + "?iv=" + bytes(16) + "?iv=" + bytes(16), "%?iv=%", bytes(99), strings.Repeat("A", 1<<16),
	} {
		if text, ok := client.decrypt(wrong); ok {
			t.Errorf("decrypted %.40q: %q", wrong, text)
		}
	}
	if client.last.Load() != currentEncryption {
		t.Error("what could not be decrypted changed the encryption")
	}
}
