package ingest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"talon/host"
	"talon/host/bound"
)

const (
	// maxVanish bounds a request to vanish, in bytes. The database keeps it for ever.
	maxVanish = 8 << 10

	// vanishPerHour is how many requests one network may send in an hour for keys of which nothing is
	// here.
	vanishPerHour = 60

	// everyRelay is the value of a tag relay that means every relay (NIP-62).
	everyRelay = "ALL_RELAYS"
)

// vanishSpec is the row of the table of bounds.
func vanishSpec() bound.Spec {
	return bound.Spec{
		Name: "requests to vanish of keys of which nothing is here", Unit: "requests an hour", Network: vanishPerHour,
		Yields: "nobody; each network has its own",
	}
}

// vanish decides about a request to vanish (NIP-62): it returns the request, or the verdict that
// refuses it. No module is asked, and no row of the moderation log counts: relays that restrict who
// may write must obey such a request too.
func (p *Pipeline) vanish(ctx context.Context, it *host.Item, facts *host.FactReader) (*host.VanishRequest, *host.Verdict, error) {
	e := it.Event
	refuse := func(format string, args ...any) (*host.VanishRequest, *host.Verdict, error) {
		return nil, &host.Verdict{Code: host.Rejected, Reason: fmt.Sprintf(format, args...)}, nil
	}
	if !p.vanishesHere(e) {
		return refuse("invalid: this request to vanish has no relay tag that names this relay, and none with ALL_RELAYS")
	}
	if len(e.JSON) > maxVanish {
		return refuse("invalid: this request to vanish has %d bytes, more than %d: give a shorter reason", len(e.JSON), maxVanish)
	}
	v := &host.VanishRequest{ID: e.ID, PubKey: e.PubKey, Until: e.CreatedAt, JSON: e.JSON}
	known, err := p.hasAnything(ctx, it, facts)
	if err != nil || known {
		return v, nil, err
	}
	if wait := p.vanished.unknown.Wait(it.Source.Addr); wait > 0 {
		return refuse("rate-limited: nothing of this key is here, and your network has sent many such requests: try again in %v", wait.Round(time.Minute))
	}
	v.JSON = nil
	return v, nil, nil
}

// vanishesHere reports whether a request to vanish names this relay, or every relay.
func (p *Pipeline) vanishesHere(e *host.Event) bool {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == "relay" && (tag[1] == everyRelay || p.cfg.NamesRelay != nil && p.cfg.NamesRelay(tag[1])) {
			return true
		}
	}
	return false
}

// hasAnything reports whether anything is here of the author of an item, or addressed to the author.
func (p *Pipeline) hasAnything(ctx context.Context, it *host.Item, facts *host.FactReader) (bool, error) {
	author := it.Event.PubKey
	if p.cfg.knows(it) || p.cfg.Moderation.Author(author, p.cfg.Now().Unix()) != nil {
		return true, nil
	}
	own := host.Filter{Authors: []host.PubKey{author}, Limit: 1, Header: true}
	wraps := host.Filter{
		Kinds: []host.Kind{host.KindGiftWrap}, Tags: []host.TagFilter{{Name: 'p', Values: []string{author.String()}}}, Limit: 1, Header: true,
	}
	for _, read := range []func(context.Context, host.Filter) ([][]byte, error){facts.Query, facts.HeldBy} {
		for _, f := range []host.Filter{own, wraps} {
			found, err := read(ctx, f)
			if err != nil || len(found) > 0 {
				return true, err
			}
		}
	}
	return false, nil
}

// noteVanished notes a request to vanish in the open transaction.
func (b *batch) noteVanished(e *entry) {
	a := answer{entry: e, written: true}
	if b.open() {
		var out host.Outcome
		if out, b.err = b.tx.Vanish(e.vanish); b.err == nil {
			a.verdict = host.Verdict{Code: out.Code, Reason: out.Reason}
			if out.Code == host.Stored {
				a.verdict.Reason = "note: all events of this key up to the date of the request go now, and do not come back"
				b.vanished = true
				if e.vanish.JSON == nil {
					b.w.vanished.unknown.Charge(e.item.Source.Addr, 1)
				}
			}
		}
	}
	b.answers = append(b.answers, a)
}

// vanished tells others of requests to vanish.
type vanished struct {
	unknown *bound.Rate // requests of keys of which nothing is here

	mu      sync.Mutex // guards changed
	changed chan struct{}
}

func newVanished(now func() time.Time) *vanished {
	return &vanished{unknown: bound.NewRate(vanishSpec(), now), changed: make(chan struct{})}
}

func (v *vanished) notify() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.changed)
	v.changed = make(chan struct{})
}

// Vanished returns a channel that is closed when somebody asks here to vanish. Requests on other
// nodes do not close it.
func (p *Pipeline) Vanished() <-chan struct{} {
	p.vanished.mu.Lock()
	defer p.vanished.mu.Unlock()
	return p.vanished.changed
}
