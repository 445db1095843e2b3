package remotesigner

import (
	"encoding/base64"
	"strings"
	"sync/atomic"

	"github.com/nbd-wtf/go-nostr/nip04"
	"github.com/nbd-wtf/go-nostr/nip44"
)

// cipher encrypts messages for one signer and decrypts its answers. NIP-46 names NIP-44. Signers
// that are older than that know NIP-04 only.
type cipher struct {
	key    [32]byte // of NIP-44
	shared []byte   // of NIP-04
	last   atomic.Uint32
}

// An encryption is a value of cipher.last: how the signer encrypted its last message.
const (
	unknownEncryption uint32 = iota // it has sent nothing yet
	currentEncryption               // NIP-44
	oldEncryption                   // NIP-04
)

func newCipher(secret, signer string) (*cipher, error) {
	key, err := nip44.GenerateConversationKey(signer, secret)
	if err != nil {
		return nil, err
	}
	shared, err := nip04.ComputeSharedSecret(signer, secret)
	if err != nil {
		return nil, err
	}
	return &cipher{key: key, shared: shared}, nil
}

// encrypt encrypts a message, by NIP-04 if old is set.
func (c *cipher) encrypt(text string, old bool) (string, error) {
	if old {
		return nip04.Encrypt(text, c.shared)
	}
	return nip44.Encrypt(text, c.key)
}

// decrypt decrypts a message, and notes its encryption.
func (c *cipher) decrypt(content string) (text string, ok bool) {
	used := currentEncryption
	text, err := nip44.Decrypt(content, c.key)
	if err != nil {
		if !wholeBlocks(content) {
			return "", false
		}
		used = oldEncryption
		if text, err = nip04.Decrypt(content, c.shared); err != nil {
			return "", false
		}
	}
	c.last.Store(used)
	return text, true
}

// wholeBlocks reports whether content has the lengths of NIP-04. The library panics without them.
func wholeBlocks(content string) bool {
	const block = 16 // bytes of AES
	message, start, found := strings.Cut(content, "?iv=")
	if !found {
		return false
	}
	m, err := base64.StdEncoding.DecodeString(message)
	if err != nil || len(m) == 0 || len(m)%block != 0 {
		return false
	}
	s, err := base64.StdEncoding.DecodeString(start)
	return err == nil && len(s) == block
}
