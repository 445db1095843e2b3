package devnet

import (
	"encoding/hex"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/sdk/nip19"
)

// reality is the network as the world that is drawn needs it: its servers, keys and commits.
type reality struct {
	*Net
	listen func(w *world.World) error
}

// Listen opens all servers.
func (g reality) Listen(w *world.World) error { return g.listen(w) }

// Key returns the public key of a secret one, and keeps the secret.
func (g reality) Key(random [32]byte) (key host.PubKey, err error) {
	secret := hex.EncodeToString(random[:])
	public, err := nostr.GetPublicKey(secret)
	if err != nil {
		return key, fmt.Errorf("make a key: %w", err)
	}
	if !host.ParseHex(key[:], public) {
		return key, fmt.Errorf("make a key: %q is none", public)
	}
	g.secrets[key] = secret
	return key, nil
}

// Sign signs an event with the key of its author.
func (g reality) Sign(e *host.Event) error {
	signed, err := sign(g.secrets[e.PubKey], int(e.Kind), e.CreatedAt, e.Content, e.Tags)
	if err != nil {
		return err
	}
	parsed, err := parse(signed)
	if err != nil {
		return err
	}
	*e = *parsed
	return nil
}

// Path is where a repository of somebody is on a server.
func (g reality) Path(owner host.PubKey, d string) string {
	return "/" + nip19.EncodeNpub(owner) + "/" + d + ".git"
}

// Commit returns the id of a commit.
func (g reality) Commit(repo *world.Repo, branch string, number int) string {
	return commitID(repo.Address, branch, number)
}

// sign makes an event.
func sign(secret string, kind int, at int64, content string, tags host.Tags) (*nostr.Event, error) {
	e := &nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(at), Content: content, Tags: nostr.Tags{}}
	for _, t := range tags {
		e.Tags = append(e.Tags, nostr.Tag(t))
	}
	if err := e.Sign(secret); err != nil {
		return nil, fmt.Errorf("sign an event: %w", err)
	}
	return e, nil
}
