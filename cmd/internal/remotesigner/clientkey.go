package remotesigner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"talon/internal/durable"
	"talon/internal/smallfile"
)

// clientKey returns the key by which a signer knows this client, in hex. It makes one the first
// time. Each signer gets another one, so that two of them cannot tell that they serve one person.
// Anybody who has it can ask the signer for signatures, so only the owner may read its file.
func clientKey(folder, signer string) (key string, isNew bool, err error) {
	sum := sha256.Sum256([]byte(signer))
	path := filepath.Join(folder, hex.EncodeToString(sum[:8])+".key")
	key, err = readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, false, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", false, fmt.Errorf("make the folder of clients of signers: %w", err)
	}
	// Another command may make it at the same time: the file that is there first counts.
	err = durable.Create(path, []byte(nostr.GeneratePrivateKey()+"\n"), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, fmt.Errorf("make a key for the signer: %w", err)
	}
	key, err = readKey(path)
	return key, true, err
}

// readKey reads the file of a key. No error quotes what it holds.
func readKey(path string) (string, error) {
	text, err := smallfile.ReadSecret(path, 100)
	if errors.Is(err, smallfile.ErrShared) {
		return "", fmt.Errorf("read the key by which the signer knows you: %w: remove it, and connect the signer again", err)
	}
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if _, err := nostr.GetPublicKey(key); err != nil || len(key) != 64 {
		return "", fmt.Errorf("%s holds no key: remove it, and connect the signer again", path)
	}
	return key, nil
}
