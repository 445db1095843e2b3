package devnet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/sdk/nip19"
)

// user is somebody with a key.
type user struct {
	secret, public string // hex
	npub           string
}

// users returns those who live in a network.
func users(seed uint64, n int) ([]user, error) {
	list := make([]user, n)
	for i := range list {
		sum := sha256.Sum256(fmt.Appendf(nil, "talon devnet %d person %d", seed, i))
		p := user{secret: hex.EncodeToString(sum[:])}
		public, err := nostr.GetPublicKey(p.secret)
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		var key host.PubKey
		if !host.ParseHex(key[:], public) {
			return nil, fmt.Errorf("make a key: %q is none", public)
		}
		p.public, p.npub = public, nip19.EncodeNpub(key)
		list[i] = p
	}
	return list, nil
}

// sign makes an event.
func (p user) sign(kind int, at int64, content string, tags ...nostr.Tag) (*nostr.Event, error) {
	if tags == nil {
		tags = nostr.Tags{}
	}
	e := &nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(at), Content: content, Tags: tags}
	if err := e.Sign(p.secret); err != nil {
		return nil, fmt.Errorf("sign an event: %w", err)
	}
	return e, nil
}
