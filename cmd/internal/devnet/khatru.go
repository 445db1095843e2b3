package devnet

import (
	"context"
	"io"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiatjaf/eventstore"
	"github.com/fiatjaf/khatru"
	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip11"
)

// khatruRelay is a relay of khatru.
type khatruRelay struct {
	events  *eventStore
	live    live
	http    http.Handler
	lose    float64
	reqs    atomic.Int64
	negs    atomic.Int64
	limited atomic.Int64
}

func (r *khatruRelay) handler() http.Handler { return r.http }

func (r *khatruRelay) close() {}

// add gives an event to the relay, as somebody would who can always reach it.
func (r *khatruRelay) add(p *post) {
	if r.events.put(p.event) {
		r.live.publish(p.event, r.lose)
	}
}

func (r *khatruRelay) watched(p *post) bool { return r.live.watched(p.event) }

func (r *khatruRelay) fill(s *RelayStatus) {
	s.Events, s.Requests, s.Comparisons, s.Refused = r.events.count(), r.reqs.Load(), r.negs.Load(), r.limited.Load()
	s.Subscriptions, s.Filters = r.live.count()
}

func (r *khatruRelay) store(_ context.Context, e *nostr.Event) error {
	if !r.events.put(e) {
		return eventstore.ErrDupEvent
	}
	r.live.publish(e, r.lose)
	return nil
}

// query answers into a channel with room for all: khatru may read one event and go.
func (r *khatruRelay) query(_ context.Context, f nostr.Filter) (chan *nostr.Event, error) {
	list := r.events.query(f)
	events := make(chan *nostr.Event, len(list))
	for _, e := range list {
		events <- e
	}
	close(events)
	return events, nil
}

func (r *khatruRelay) limit(ctx context.Context, m *meters) (bool, string) {
	if m.acquire(khatru.GetConnection(ctx), time.Now()) {
		return false, ""
	}
	r.limited.Add(1)
	return true, "rate-limited: slow down"
}

// newKhatru makes a relay that is reached at an address, host:port.
func newKhatru(cfg *Config, address string, negentropy bool) *khatruRelay {
	r := &khatruRelay{lose: cfg.Lose, events: newEventStore(), live: live{subs: map[subKey]*sub{}}}
	quiet := log.New(io.Discard, "", 0)
	front, store := khatru.NewRouter(), khatru.NewRelay()
	front.Log, store.Log = quiet, quiet
	front.ServiceURL = "http://" + address
	front.Negentropy = negentropy
	front.Info.Name = "devnet"
	if cfg.MaxLimit > 0 {
		front.Info.Limitation = &nip11.RelayLimitationDocument{MaxLimit: cfg.MaxLimit, DefaultLimit: cfg.MaxLimit}
	}
	// Events go to a relay of khatru that has no listeners: see live.
	front.Route().Event(func(*nostr.Event) bool { return true }).Relay(store)
	store.StoreEvent = append(store.StoreEvent, r.store)
	store.ReplaceEvent = append(store.ReplaceEvent, r.store)
	store.QueryEvents = append(store.QueryEvents, r.query)
	store.DeleteEvent = append(store.DeleteEvent, func(_ context.Context, e *nostr.Event) error {
		r.events.delete(e.ID)
		return nil
	})
	front.OverwriteFilter = append(front.OverwriteFilter, func(ctx context.Context, f *nostr.Filter) {
		if eventstore.IsNegentropySession(ctx) {
			r.negs.Add(1)
			return
		}
		r.reqs.Add(1)
		r.live.add(ctx, *f)
		if cfg.MaxLimit > 0 && (f.Limit == 0 || f.Limit > cfg.MaxLimit) {
			f.Limit = cfg.MaxLimit
		}
	})
	front.QueryEvents = append(front.QueryEvents, r.query)
	front.CountEvents = append(front.CountEvents, func(_ context.Context, f nostr.Filter) (int64, error) {
		return int64(len(r.events.query(f))), nil
	})
	if cfg.RateLimit > 0 {
		meters := &meters{rate: cfg.RateLimit, of: map[*khatru.WebSocket]*meter{}}
		front.OnDisconnect = append(front.OnDisconnect, func(ctx context.Context) { meters.forget(khatru.GetConnection(ctx)) })
		front.RejectFilter = append(front.RejectFilter, func(ctx context.Context, _ nostr.Filter) (bool, string) { return r.limit(ctx, meters) })
		store.RejectEvent = append(store.RejectEvent, func(ctx context.Context, _ *nostr.Event) (bool, string) { return r.limit(ctx, meters) })
	}
	r.http = front.Relay
	return r
}

// meters count what each connection asks for.
type meters struct {
	rate float64

	mu sync.Mutex // guards of
	of map[*khatru.WebSocket]*meter
}

func (m *meters) acquire(ws *khatru.WebSocket, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := max(1, 2*m.rate)
	b := m.of[ws]
	if b == nil {
		b = &meter{left: full, at: now}
		m.of[ws] = b
	}
	b.left = min(full, b.left+m.rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (m *meters) forget(ws *khatru.WebSocket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, ws)
}

// meter is a bucket that holds what a connection may ask for in two seconds.
type meter struct {
	left float64
	at   time.Time
}
