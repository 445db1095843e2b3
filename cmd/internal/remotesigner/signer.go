// Package remotesigner has events signed by a signer that keeps the key elsewhere (NIP-46): an app
// on a phone, or a bunker. Requests and answers are encrypted events that relays pass on.
//
// Neither the signer nor the relays are trusted with more than they need: what comes back must be
// the event that was sent, signed by the key that the signer named first.
package remotesigner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/schnorr"
	"talon/host/wire"
)

const (
	// maxURL bounds the URL of a signer, and maxRelays its relays.
	maxURL    = 4 << 10
	maxRelays = 10

	// quietTime is how long a signer may be silent before its user hears of it, and knownTime
	// how long one that knows this client has for the question who it is.
	quietTime = 2 * time.Second
	knownTime = 5 * time.Second

	// reachTime bounds the connection to the relays.
	reachTime = 15 * time.Second
)

// Options are the options of a signer. All are required.
type Options struct {
	// Folder has a file for each signer: the key by which the signer knows this client again.
	Folder string

	// Limit is how long a person may take to approve one request.
	Limit time.Duration

	// Say gets what the person should know, from any goroutine. Its text may be a signer's own.
	Say func(text string)
}

// Signer signs by asking.
type Signer struct {
	opts   Options
	client *client
	relays []string
	author host.PubKey
	ctx    context.Context // of all requests
	stop   context.CancelFunc
}

// address is a parsed bunker URL.
type address struct {
	signer string // its public key in hex, for messages
	relays []string
	secret string
}

// parse reads bunker://KEY?relay=URL&secret=TEXT. No error quotes the secret.
func parse(text string) (a address, err error) {
	const form = "it must be bunker://KEY?relay=wss://RELAY&secret=TEXT, as the signer shows it"
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURL || u.Scheme != "bunker" {
		return a, errors.New("the URL of the signer is wrong: " + form)
	}
	a = address{signer: strings.ToLower(u.Host), relays: u.Query()["relay"], secret: u.Query().Get("secret")}
	if !nostr.IsValidPublicKey(a.signer) {
		return a, fmt.Errorf("the URL of the signer is wrong: %.80q is no public key in hex; %s", a.signer, form)
	}
	slices.Sort(a.relays)
	a.relays = slices.Compact(a.relays)
	if len(a.relays) == 0 || len(a.relays) > maxRelays {
		return a, fmt.Errorf("the URL of the signer is wrong: it has %d relays, and must have 1 to %d", len(a.relays), maxRelays)
	}
	for _, relay := range a.relays {
		if err := relayclient.CheckURL(relay); err != nil {
			return a, fmt.Errorf("the URL of the signer is wrong: the relay %.200q: %w", relay, err)
		}
	}
	return a, nil
}

// Open connects to a signer, and asks it whose key it has. The context bounds all requests of the
// signer, which must be closed.
func Open(ctx context.Context, bunkerURL string, opts Options) (_ *Signer, err error) {
	a, err := parse(bunkerURL)
	if err != nil {
		return nil, err
	}
	client, isNew, err := clientKey(opts.Folder, a.signer)
	if err != nil {
		return nil, err
	}
	s := &Signer{opts: opts, relays: a.relays}
	s.ctx, s.stop = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	pool := nostr.NewSimplePool(s.ctx, nostr.WithAuthHandler(func(_ context.Context, e nostr.RelayEvent) error { return e.Sign(client) }))
	if err := reach(s.ctx, pool, a.relays); err != nil {
		return nil, err
	}
	s.client, err = newClient(pool, a.relays, client, a.signer, func(page string) {
		opts.Say("the signer asks you to open this page: " + page)
	})
	if err == nil {
		err = s.client.listen(s.ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := listening(s.ctx, pool); err != nil {
		return nil, err
	}
	if s.author, err = s.whose(isNew, a); err != nil {
		return nil, err
	}
	return s, nil
}

// reach connects to the relays. One of them will do.
func reach(ctx context.Context, pool *nostr.SimplePool, relays []string) error {
	failed := make(chan error, len(relays))
	for _, relay := range relays {
		go func() {
			_, err := pool.EnsureRelay(relay)
			if err != nil {
				err = fmt.Errorf("%s: %w", relay, err)
			}
			failed <- err
		}()
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	var errs []error
	for range relays {
		select {
		case err := <-failed:
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		case <-ctx.Done():
			return fmt.Errorf("reach a relay of the signer: %w", ctx.Err())
		}
	}
	return fmt.Errorf("reach a relay of the signer: %w", errors.Join(errs...))
}

// listening waits until a relay was asked for the signer's answers. Relays do not keep them, so an
// answer to a request that was made before would be lost. The library says only that it is about
// to ask.
func listening(ctx context.Context, pool *nostr.SimplePool) error {
	const aboutTime = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	for asked := false; ; {
		pause := 20 * time.Millisecond
		pool.Relays.Range(func(_ string, relay *nostr.Relay) bool {
			asked = asked || relay != nil && relay.Subscriptions.Size() > 0
			return !asked
		})
		if asked {
			pause = aboutTime
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("listen for the signer's answers: %w", ctx.Err())
		case <-time.After(pause):
		}
		if asked {
			return nil
		}
	}
}

// whose makes the signer know this client, and returns the key that it has.
func (s *Signer) whose(isNew bool, a address) (author host.PubKey, err error) {
	ask := func(ctx context.Context) error {
		text, err := s.client.call(ctx, "get_public_key")
		if err == nil && !host.ParseHex(author[:], text) {
			err = fmt.Errorf("the signer names %.80q, which is no public key", text)
		}
		return err
	}
	if !isNew {
		ctx, cancel := context.WithTimeout(s.ctx, knownTime)
		defer cancel()
		if ask(ctx) == nil {
			return author, nil
		}
	}
	// A signer that knows this client may take the secret no second time, and answers all the same.
	refused := s.request("connect", func(ctx context.Context) error {
		_, err := s.client.call(ctx, "connect", a.signer, a.secret)
		return err
	})
	if err := s.request("get_public_key", ask); err != nil {
		return author, cmp.Or(refused, err)
	}
	return author, nil
}

// request makes one request within the limit. The person hears if the signer is silent.
func (s *Signer) request(method string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.opts.Limit)
	defer cancel()
	var over atomic.Bool
	until := time.Now().Add(s.opts.Limit)
	silent := time.AfterFunc(min(quietTime, s.opts.Limit/2), func() {
		if !over.Load() {
			s.opts.Say(fmt.Sprintf("waiting for the signer until %s: approve the request (%s) there", until.Format(time.TimeOnly), method))
		}
	})
	err := do(ctx)
	over.Store(true)
	silent.Stop()
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case ctx.Err() != nil:
		return fmt.Errorf("the signer did not answer within %v (%s): see that it runs, that it uses the relay %s, and that you approve the request",
			s.opts.Limit, method, strings.Join(s.relays, " or "))
	}
	return fmt.Errorf("ask the signer (%s): %w", method, err)
}

// PublicKey returns the key that the signer signs with.
func (s *Signer) PublicKey() host.PubKey { return s.author }

// Sign has an event signed: its kind, time, tags and content. It completes the event.
func (s *Signer) Sign(e *host.Event) error {
	e.PubKey = s.author
	draft := nostr.Event{
		PubKey: s.author.String(), Kind: int(e.Kind), CreatedAt: nostr.Timestamp(e.CreatedAt), Content: e.Content, Tags: nostr.Tags{},
	}
	for _, tag := range e.Tags {
		draft.Tags = append(draft.Tags, nostr.Tag(tag))
	}
	var answer nostr.Event
	err := s.request("sign_event", func(ctx context.Context) error {
		text, err := s.client.call(ctx, "sign_event", draft.String())
		if err == nil {
			err = answer.UnmarshalJSON([]byte(text))
		}
		return err
	})
	if err != nil {
		return err
	}
	if !same(&draft, &answer) {
		return errors.New("the signer signed another event than the one that it was sent")
	}
	signed := *e
	if !host.ParseHex(signed.ID[:], answer.ID) || !host.ParseHex(signed.Sig[:], answer.Sig) {
		return errors.New("the signer answered with an event whose id or signature is no hex")
	}
	text := signed.AppendJSON(nil)
	parsed, err := wire.ParseEvent(text)
	if err == nil {
		err = schnorr.Verify(parsed)
	}
	if err != nil {
		return fmt.Errorf("verify what the signer signed: %w", err)
	}
	*e = *parsed
	return nil
}

// same reports whether a signed event is the draft.
func same(draft, signed *nostr.Event) bool {
	return signed.PubKey == draft.PubKey && signed.Kind == draft.Kind && signed.CreatedAt == draft.CreatedAt && signed.Content == draft.Content &&
		slices.EqualFunc(draft.Tags, signed.Tags, func(a, b nostr.Tag) bool { return slices.Equal(a, b) })
}

// Close ends the connections.
func (s *Signer) Close() { s.stop() }
