// Package relaysynctest is what tests put around a Sync: a store with its pipeline and
// facts, memory that stays over a restart, and relays that are served.
package relaysynctest

import (
	"context"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaymodel/server"
	rules "talon/sdk/grasp"
)

// Store is what is stored here: announcements that list a service, and what is about
// something that is here. It is the pipeline, the store and the facts of a Sync in one.
type Store struct {
	service string // its address, as announcements list it
	commit  time.Duration
	verify  func(*host.Event) error
	queue   chan *host.Item
	done    chan struct{}

	mu      sync.Mutex // guards the fields below
	store   *relaymodel.Store
	named   map[string]bool // ids and addresses of what is here
	publish func([]host.Published)
	seq     int64
	stored  map[host.ID]time.Time // when each event was stored
}

// NewStore returns an empty store of the service with this address, of which each commit
// takes so long.
func NewStore(service string, commit time.Duration, verify func(*host.Event) error) *Store {
	s := &Store{
		service: service, commit: commit, verify: verify, queue: make(chan *host.Item, 256), done: make(chan struct{}),
		store: relaymodel.NewStore(), named: map[string]bool{}, stored: map[host.ID]time.Time{},
	}
	go s.run()
	return s
}

// run decides about what has been submitted. A commit has all that came meanwhile.
func (s *Store) run() {
	defer close(s.done)
	for it := range s.queue {
		time.Sleep(s.commit)
		for more := true; more; {
			it.Done(s.decide(it.Event), nil)
			select {
			case it, more = <-s.queue:
			default:
				more = false
			}
		}
	}
}

// Close ends the pipeline. Nothing may be submitted any more.
func (s *Store) Close() {
	close(s.queue)
	<-s.done
}

// Follow has what is stored from now on published; nil: it is not.
func (s *Store) Follow(publish func([]host.Published)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish = publish
}

// Has reports whether an event is here.
func (s *Store) Has(id host.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.Get(id) != nil
}

// Len returns how many events are here.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.Len()
}

// StoredAt returns when an event was stored.
func (s *Store) StoredAt(id host.ID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored[id]
}

func (s *Store) Submit(ctx context.Context, it *host.Item) error {
	select {
	case s.queue <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) decide(e *host.Event) host.Verdict {
	s.mu.Lock()
	v := s.verdict(e)
	publish, seq := s.publish, s.seq
	s.mu.Unlock()
	if publish != nil && v.Code == host.Stored {
		publish([]host.Published{{Event: e, Seq: seq}})
	}
	return v
}

func (s *Store) verdict(e *host.Event) host.Verdict {
	if old := s.store.Newer(e); old != nil {
		if old.ID == e.ID {
			return host.Verdict{Code: host.Duplicate}
		}
		return host.Verdict{Code: host.Replaced}
	}
	if s.verify(e) != nil {
		return host.Verdict{Code: host.Rejected, Reason: "invalid: forged"}
	}
	ok := e.Kind == rules.KindState && s.named[host.Address{Kind: rules.KindAnnouncement, PubKey: e.PubKey, D: e.D()}.String()]
	for _, tag := range e.Tags {
		for _, value := range tag[min(1, len(tag)):] {
			ok = ok || s.named[value] || e.Kind == rules.KindAnnouncement && value == s.service
		}
	}
	if !ok {
		return host.Verdict{Code: host.Rejected, Reason: "blocked: not about anything here"}
	}
	s.store.Put(e)
	s.seq++
	s.stored[e.ID] = time.Now()
	s.named[e.ID.String()] = true
	if a, ok := e.Address(); ok {
		s.named[a.String()] = true
	}
	return host.Verdict{Code: host.Stored}
}

func (s *Store) Get(_ context.Context, id host.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.store.Get(id); e != nil {
		return e.JSON, nil
	}
	return nil, nil
}

func (s *Store) Query(_ context.Context, f host.Filter) (texts [][]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.store.Query(&f) {
		texts = append(texts, e.JSON)
	}
	return texts, nil
}

func (s *Store) Referenced(context.Context, string) (bool, error)      { return false, nil }
func (s *Store) Held(context.Context, host.ID) ([]byte, error)         { return nil, nil }
func (s *Store) HeldBy(context.Context, host.Filter) ([][]byte, error) { return nil, nil }

func (s *Store) Scan(_ context.Context, f host.Filter, limit int, _ int64, yield func(int64, host.ID)) (int64, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.store.Query(&f)
	list = list[:min(len(list), limit)]
	for _, e := range list {
		yield(e.CreatedAt, e.ID)
	}
	return s.seq, len(list), nil
}

func (s *Store) Missing(_ context.Context, ids []host.ID) (missing []host.ID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.store.Get(id) == nil {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// Memory is what stays over a restart.
type Memory map[string][]byte

func (m Memory) Load(context.Context) (map[string][]byte, error) { return maps.Clone(m), nil }

func (m Memory) Save(_ context.Context, relays map[string][]byte) error {
	maps.Copy(m, relays)
	return nil
}

// Holdings is what relays are believed to hold. It stays over a restart.
type Holdings struct {
	mu sync.Mutex // guards of
	of map[string][]byte
}

func (h *Holdings) Load(_ context.Context, relay string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[relay], nil
}

func (h *Holdings) Save(_ context.Context, relays map[string][]byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string][]byte{}
	}
	maps.Copy(h.of, relays)
	return nil
}

// Serve serves a relay until it is closed.
func Serve(l net.Listener, p *relaymodel.Profile, seed uint64) (relay *server.Server, close func()) {
	relay = server.New(p, seed)
	web := &http.Server{Handler: relay, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- web.Serve(l) }()
	return relay, func() {
		_ = web.Close()
		<-done
		relay.Close()
	}
}
