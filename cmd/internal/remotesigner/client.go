package remotesigner

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip46"
)

// client makes requests of a signer over go-nostr's relays. go-nostr's own client may miss that a
// relay took a request, and then ends the process when the answer comes.
type client struct {
	pool   *nostr.SimplePool
	relays []string
	secret string // its own key, in hex
	signer string // the signer's public key, in hex
	cipher *cipher
	page   func(url string) // gets a page that the signer wants opened

	mu      sync.Mutex // guards waiting
	waiting map[string]chan nip46.Response
}

func newClient(pool *nostr.SimplePool, relays []string, secret, signer string, page func(url string)) (*client, error) {
	cipher, err := newCipher(secret, signer)
	if err != nil {
		return nil, fmt.Errorf("agree on a key with the signer: %w", err)
	}
	return &client{
		pool: pool, relays: relays, secret: secret, signer: signer, cipher: cipher, page: page, waiting: map[string]chan nip46.Response{},
	}, nil
}

// listen takes the signer's answers until the context ends.
func (c *client) listen(ctx context.Context) error {
	own, err := nostr.GetPublicKey(c.secret)
	if err != nil {
		return err
	}
	now := nostr.Now()
	events := c.pool.SubscribeMany(ctx, c.relays, nostr.Filter{
		Kinds: []int{nostr.KindNostrConnect}, Tags: nostr.TagMap{"p": {own}}, Since: &now, LimitZero: true,
	})
	go func() {
		for e := range events {
			c.take(e.Event)
		}
	}()
	return nil
}

// take gives an answer to the request that waits for it. Others are dropped.
func (c *client) take(e *nostr.Event) {
	if e.Kind != nostr.KindNostrConnect || e.PubKey != c.signer {
		return
	}
	text, ok := c.cipher.decrypt(e.Content)
	var answer nip46.Response
	if !ok || json.Unmarshal([]byte(text), &answer) != nil {
		return
	}
	c.mu.Lock()
	waits := c.waiting[answer.ID]
	if waits != nil && answer.Result != "auth_url" {
		delete(c.waiting, answer.ID)
	}
	c.mu.Unlock()
	switch {
	case waits == nil:
	case answer.Result == "auth_url":
		c.page(answer.Error)
	default:
		waits <- answer // it has room, and gets one answer
	}
}

// oldTime is how long a signer that has sent nothing yet may be silent before it gets the request
// by NIP-04 too. A signer that shows a person the request twice takes one approval for both.
const oldTime = 2 * time.Second

// call makes one request and waits for its answer.
func (c *client) call(ctx context.Context, method string, params ...string) (string, error) {
	id := rand.Text()
	text, err := json.Marshal(nip46.Request{ID: id, Method: method, Params: params})
	if err != nil {
		return "", err
	}
	answer := make(chan nip46.Response, 1)
	c.mu.Lock()
	c.waiting[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, id)
	}()
	old := c.cipher.last.Load() == oldEncryption
	if err := c.send(ctx, string(text), old); err != nil {
		return "", err
	}
	silent := time.NewTimer(oldTime)
	defer silent.Stop()
	for {
		select {
		case a := <-answer:
			if a.Error != "" {
				return "", errors.New(a.Error)
			}
			return a.Result, nil
		case <-silent.C:
			if c.cipher.last.Load() != unknownEncryption {
				continue
			}
			if err := c.send(ctx, string(text), true); err != nil {
				return "", err
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// send gives a request to the relays, encrypted by NIP-04 if old is set.
func (c *client) send(ctx context.Context, text string, old bool) error {
	content, err := c.cipher.encrypt(text, old)
	if err != nil {
		return fmt.Errorf("encrypt the request: %w", err)
	}
	e := nostr.Event{Kind: nostr.KindNostrConnect, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"p", c.signer}}, Content: content}
	if err := e.Sign(c.secret); err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	for _, url := range c.relays {
		go func() {
			if relay, err := c.pool.EnsureRelay(url); err == nil {
				_ = relay.Publish(ctx, e) // no answer comes if no relay took it
			}
		}()
	}
	return nil
}
