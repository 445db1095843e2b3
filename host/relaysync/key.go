package relaysync

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
)

// Key is the relay's own key, with which it proves itself to other relays. It is
// printed nowhere.
type Key struct {
	secret string // hex
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
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // for us alone
	if err != nil {
		return nil, fmt.Errorf("keep the relay's key: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(k.secret + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path) // not over another's
	}
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
	var raw [32]byte
	k := &Key{secret: strings.ToLower(secret)}
	if !host.ParseHex(raw[:], k.secret) {
		return nil, errKey
	}
	// The library's errors may quote the key.
	public, err := nostr.GetPublicKey(k.secret)
	if err != nil || !host.ParseHex(k.pubkey[:], public) || raw == [32]byte{} {
		return nil, errKey
	}
	return k, nil
}

// PubKey is the public key.
func (k *Key) PubKey() host.PubKey { return k.pubkey }

var errSign = errors.New("the event cannot be signed with the relay's key")

// Sign fills in author, id and signature.
func (k *Key) Sign(e *host.Event) error {
	if e.Tags == nil {
		e.Tags = nostr.Tags{}
	}
	s := nostr.Event{CreatedAt: nostr.Timestamp(e.CreatedAt), Kind: int(e.Kind), Tags: e.Tags, Content: e.Content}
	if s.Sign(k.secret) != nil || !host.ParseHex(e.PubKey[:], s.PubKey) || !host.ParseHex(e.ID[:], s.ID) || !host.ParseHex(e.Sig[:], s.Sig) {
		return errSign
	}
	e.JSON = e.AppendJSON(nil)
	return nil
}
