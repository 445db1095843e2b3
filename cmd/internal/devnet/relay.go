package devnet

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiatjaf/eventstore"
	"github.com/fiatjaf/khatru"
	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip11"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaymodel/server"
	"talon/host/wire"
)

// Relay is one relay of the network.
type Relay struct {
	URL        string
	Profile    string // khatru where it is a relay of khatru's
	Negentropy bool

	site
	backend backend
	honest  bool // what it has can be had from it
}

// backend is what answers as a relay.
type backend interface {
	handler() http.Handler
	add(p *script) // gives it an event
	watched(p *script) bool
	fill(s *RelayStatus)
	close()
}

// newRelay makes a relay that serves on l: of khatru, or of a profile.
func newRelay(cfg *Config, l net.Listener, negentropy bool, other *Foreign) *Relay {
	address := l.Addr().String()
	r := &Relay{URL: "ws://" + address}
	if other == nil {
		r.Profile, r.Negentropy, r.honest = "khatru", negentropy, true
		r.backend = newKhatru(cfg, address, negentropy)
	} else {
		p := other.Profile
		r.Profile, r.Negentropy, r.honest = other.Name, p.Negentropy.Supported, p.Honest()
		r.backend = &modelRelay{server.New(p, cfg.Seed)}
	}
	r.site = newSite(newExchange(l, cfg.Latency, cfg.Drop), r.backend.handler())
	return r
}

func (r *Relay) close() error {
	err := r.site.close()
	r.exchange.cut(true) // the server has forgotten its websockets
	r.backend.close()
	return err
}

// modelRelay is a relay of a profile.
type modelRelay struct{ *server.Server }

func (m *modelRelay) handler() http.Handler { return m.Server }

func (m *modelRelay) close() { m.Close() }

func (m *modelRelay) add(p *script) { m.Add(p.parsed) }

func (m *modelRelay) watched(p *script) (yes bool) {
	m.View(func(r *relaymodel.Relay) { yes = r.Watched(p.parsed) })
	return yes
}

func (m *modelRelay) fill(s *RelayStatus) {
	m.View(func(r *relaymodel.Relay) {
		counted := r.Stats()
		s.Events = r.Store().Len()
		s.Requests, s.Comparisons, s.Refused = int64(counted.Filters), int64(counted.Comparisons), int64(counted.Refused)
		_, s.Subscriptions, s.Filters = r.Opened()
		s.Up = s.Up && r.Up()
	})
}

// parse returns an event as the host has it.
func parse(e *nostr.Event) (*host.Event, error) {
	parsed, err := wire.ParseEvent([]byte(e.String()))
	if err != nil {
		return nil, fmt.Errorf("publish an event: %w", err)
	}
	return parsed, nil
}

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

func (r *khatruRelay) handler() http.Handler { return r.http }

func (r *khatruRelay) close() {}

// add gives an event to the relay, as somebody would who can always reach it.
func (r *khatruRelay) add(p *script) {
	if r.events.put(p.event) {
		r.live.publish(p.event, r.lose)
	}
}

func (r *khatruRelay) watched(p *script) bool { return r.live.watched(p.event) }

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

// meters count what each connection asks for.
type meters struct {
	rate float64

	mu sync.Mutex // guards of
	of map[*khatru.WebSocket]*meter
}

// meter is a bucket that holds what a connection may ask for in two seconds.
type meter struct {
	left float64
	at   time.Time
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

// eventStore is the events of one relay, in memory. An event on it never changes: relays
// share them.
type eventStore struct {
	mu   sync.RWMutex // guards all fields
	byID map[string]*nostr.Event
	tags map[tagValue][]*nostr.Event
	kind map[int][]*nostr.Event
}

// tagValue is a tag that can be asked for.
type tagValue struct{ name, value string }

func newEventStore() *eventStore {
	return &eventStore{byID: map[string]*nostr.Event{}, tags: map[tagValue][]*nostr.Event{}, kind: map[int][]*nostr.Event{}}
}

// put stores an event. It reports false if that changed nothing: it is here, or a
// newer one is in its place.
func (s *eventStore) put(e *nostr.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[e.ID] != nil {
		return false
	}
	if nostr.IsReplaceableKind(e.Kind) || nostr.IsAddressableKind(e.Kind) {
		for _, old := range s.kind[e.Kind] {
			if old.PubKey != e.PubKey || nostr.IsAddressableKind(e.Kind) && old.Tags.GetD() != e.Tags.GetD() {
				continue
			}
			if newer(old, e) {
				return false
			}
			s.remove(old)
			break
		}
	}
	s.byID[e.ID] = e
	s.kind[e.Kind] = append(s.kind[e.Kind], e)
	for t := range tagsOf(e) {
		s.tags[t] = append(s.tags[t], e)
	}
	return true
}

// delete forgets an event.
func (s *eventStore) delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil {
		s.remove(e)
	}
}

// remove takes an event off. REQUIRES: mu.
func (s *eventStore) remove(e *nostr.Event) {
	without := func(list []*nostr.Event) []*nostr.Event {
		return slices.DeleteFunc(list, func(o *nostr.Event) bool { return o == e })
	}
	delete(s.byID, e.ID)
	s.kind[e.Kind] = without(s.kind[e.Kind])
	for t := range tagsOf(e) {
		s.tags[t] = without(s.tags[t])
	}
}

func tagsOf(e *nostr.Event) map[tagValue]bool {
	set := make(map[tagValue]bool, len(e.Tags))
	for _, t := range e.Tags {
		if len(t) > 1 && len(t[0]) == 1 {
			set[tagValue{t[0], t[1]}] = true
		}
	}
	return set
}

func (s *eventStore) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.byID)
}

// query returns the events that match, the newest first.
func (s *eventStore) query(f nostr.Filter) []*nostr.Event {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []*nostr.Event
	s.candidates(&f, func(e *nostr.Event) {
		if f.Matches(e) {
			list = append(list, e)
		}
	})
	slices.SortFunc(list, func(a, b *nostr.Event) int {
		if a == b {
			return 0
		}
		if newer(a, b) {
			return -1
		}
		return 1
	})
	list = slices.Compact(list) // two values of a filter may name one event
	if f.Limit > 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	return list
}

// candidates yields all events that may match, some more than once. REQUIRES: mu.
func (s *eventStore) candidates(f *nostr.Filter, yield func(*nostr.Event)) {
	if f.IDs != nil {
		for _, id := range f.IDs {
			if e := s.byID[id]; e != nil {
				yield(e)
			}
		}
		return
	}
	for name, values := range f.Tags {
		for _, v := range values {
			for _, e := range s.tags[tagValue{name, v}] {
				yield(e)
			}
		}
		return // each tag of a filter must match, so one of them is enough
	}
	if f.Kinds != nil {
		for _, k := range f.Kinds {
			for _, e := range s.kind[k] {
				yield(e)
			}
		}
		return
	}
	for _, e := range s.byID {
		yield(e)
	}
}

// newer reports whether a stands before b: it is younger or, of the same second, its
// id is the lower one (NIP-01).
func newer(a, b *nostr.Event) bool {
	if a.CreatedAt != b.CreatedAt {
		return a.CreatedAt > b.CreatedAt
	}
	return strings.Compare(a.ID, b.ID) < 0
}
