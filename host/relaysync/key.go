package relaysync

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"talon/host"
	"talon/host/schnorr"
	"talon/internal/durable"
)

// Key is the relay's own secret key, for authentication to other relays. It is never
// printed.
type Key struct {
	secret [32]byte
	pubkey host.PubKey
}

// OpenKey reads a key from a file, 64 hex digits, and makes one there if there is no
// file.
func OpenKey(path string) (*Key, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the relay's key: %w", err)
	}
	k, err := newKey(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("read the relay's key %s: %w", path, err)
	}
	return k, nil
}

// makeKey makes a key and keeps it. The file is whole or not there.
func makeKey(path string) (*Key, error) {
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return nil, fmt.Errorf("make the relay's key: %w", err)
	}
	k, err := newKey(hex.EncodeToString(secret[:]))
	if err != nil {
		return nil, fmt.Errorf("make the relay's key: %w", err)
	}
	err = durable.Create(path, fmt.Appendf(nil, "%x\n", k.secret), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return OpenKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("keep the relay's key: %w", err)
	}
	return k, nil
}

var errKey = errors.New("it is not a secret key of 64 hex digits; to have another made, move the file away")

func newKey(secret string) (*Key, error) {
	k := &Key{}
	if !host.ParseHex(k.secret[:], strings.ToLower(secret)) {
		return nil, errKey
	}
	pubkey, err := schnorr.PublicKey(k.secret)
	if err != nil {
		return nil, errKey
	}
	k.pubkey = pubkey
	return k, nil
}

// PubKey returns the public key.
func (k *Key) PubKey() host.PubKey { return k.pubkey }

// Secret returns another secret that is derived from the key and does not reveal it.
func (k *Key) Secret() (secret [16]byte) {
	sum := sha256.Sum256(append([]byte("talon: marks of refused events\n"), k.secret[:]...))
	copy(secret[:], sum[:])
	return secret
}

// Sign fills in author, id, signature and JSON.
func (k *Key) Sign(e *host.Event) error { return schnorr.Sign(k.secret, e) }
