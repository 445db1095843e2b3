package devnet

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/fiatjaf/khatru"
	"github.com/nbd-wtf/go-nostr"
)

// live is the list of open subscriptions of a relay. It replaces the list of khatru, which
// has two faults. khatru reads its list without the lock, which now and then ends the
// process. It adds a subscription only after it looked up the stored events, and so loses
// events that come in between. No event reaches that list (see newRelay).
type live struct {
	mu   sync.Mutex // guards subs
	subs map[subKey]*sub
}

// add begins one filter of a REQ. The context ends with the subscription.
func (l *live) add(ctx context.Context, f nostr.Filter) {
	key := subKey{khatru.GetConnection(ctx), khatru.GetSubscriptionID(ctx)}
	f.Limit, f.LimitZero = 0, false
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subs[key]
	if s == nil || s.ctx != ctx { // the first filter; a REQ replaces one of its name
		s = &sub{ctx: ctx}
		l.subs[key] = s
		context.AfterFunc(ctx, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.subs[key] == s {
				delete(l.subs, key)
			}
		})
	}
	s.filters = append(s.filters, f)
}

// publish sends an event to the subscriptions that it matches. It leaves out each one with
// the probability lose.
func (l *live) publish(e *nostr.Event, lose float64) {
	l.mu.Lock()
	var to []subKey
	for key, s := range l.subs {
		if nostr.Filters(s.filters).Match(e) && (lose == 0 || rand.Float64() >= lose) { //nolint:gosec // no secret
			to = append(to, key)
		}
	}
	l.mu.Unlock()
	for _, key := range to {
		_ = key.ws.WriteJSON(nostr.EventEnvelope{SubscriptionID: &key.id, Event: *e})
	}
}

// watched reports whether somebody wants to hear of an event.
func (l *live) watched(e *nostr.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.subs {
		if nostr.Filters(s.filters).Match(e) {
			return true
		}
	}
	return false
}

// count returns how many subscriptions and filters there are.
func (l *live) count() (subs, filters int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.subs {
		filters += len(s.filters)
	}
	return len(l.subs), filters
}

type subKey struct {
	ws *khatru.WebSocket
	id string
}

type sub struct {
	ctx     context.Context // of its REQ, which tells one from another
	filters []nostr.Filter
}
