// Package relaysynctest is a surrounding of a Sync for tests: a store with its pipeline and
// facts, memory that survives a restart, no throttle, served relays, and events.
package relaysynctest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaymodel/server"
	"talon/host/throttle"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// Store is what is stored and held here. It is the pipeline, the store and the facts of a
// Sync in one.
type Store struct {
	commit time.Duration
	verify func(*host.Event) error
	queue  chan *host.Item
	done   chan struct{}

	mu        sync.Mutex // guards the fields below
	policy    func(e *host.Event) host.Verdict
	block     <-chan struct{} // if not nil, the pipeline waits for it before each event
	store     *relaymodel.Store
	held      *relaymodel.Store
	follower  Follower
	submitted int
	seq       int64
	stored    map[host.ID]time.Time // when each event was stored
}

// Follower learns what happens here. A Sync is one.
type Follower interface {
	Publish(events []host.Published)
	Follow(removed []*host.Event, held []host.HeldChange)
}

// NewStore returns an empty store of which each commit takes so long. It stores whatever
// verify finds nothing wrong with, unless there is a policy.
func NewStore(commit time.Duration, verify func(*host.Event) error) *Store {
	s := &Store{
		commit: commit, verify: verify, queue: make(chan *host.Item, 256), done: make(chan struct{}),
		store: relaymodel.NewStore(), held: relaymodel.NewStore(), stored: map[host.ID]time.Time{},
		policy: func(*host.Event) host.Verdict { return host.Verdict{Code: host.Stored} },
	}
	go s.run()
	return s
}

// run decides about submitted events. A commit includes all events that arrive while it runs.
func (s *Store) run() {
	defer close(s.done)
	for it := range s.queue {
		time.Sleep(s.commit)
		for more := true; more; {
			s.mu.Lock()
			block := s.block
			s.mu.Unlock()
			if block != nil {
				<-block
			}
			it.Done(s.decide(it), nil)
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

// SetFollower has what happens from now on told to somebody; nil: to nobody.
func (s *Store) SetFollower(f Follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follower = f
}

// SetPolicy has a function decide about events from now on. It may call the store.
func (s *Store) SetPolicy(policy func(e *host.Event) host.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policy = policy
}

// About returns a policy as GRASP has it: it takes announcements that list the service
// with this address (empty: all), and what is about something that is here.
func (s *Store) About(service string) func(e *host.Event) host.Verdict {
	return func(e *host.Event) host.Verdict {
		ok := e.Kind == grasp.KindAnnouncement && service == "" ||
			e.Kind == grasp.KindState && s.at(host.Address{Kind: grasp.KindAnnouncement, PubKey: e.PubKey, D: e.D()})
		for _, tag := range e.Tags {
			for _, value := range tag[min(1, len(tag)):] {
				ok = ok || s.names(value) || e.Kind == grasp.KindAnnouncement && value == service
			}
		}
		if !ok {
			return host.Verdict{Code: host.Rejected, Reason: "blocked: not about anything here"}
		}
		return host.Verdict{Code: host.Stored}
	}
}

// names reports whether a value is the id or the address of something here.
func (s *Store) names(value string) bool {
	var id host.ID
	if host.ParseHex(id[:], value) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, ok := s.stored[id]
		return ok
	}
	a, ok := host.ParseAddress(value)
	return ok && s.at(a)
}

func (s *Store) at(a host.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.At(a) != nil
}

// Halt has the pipeline wait before each event: for a value in the channel, or for all of
// them until release.
func (s *Store) Halt() (step chan<- struct{}, release func()) {
	block := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block = block
	return block, sync.OnceFunc(func() { close(block) })
}

// Waiting returns how many events the pipeline has not taken.
func (s *Store) Waiting() int { return len(s.queue) }

// Put stores events, and tells nobody.
func (s *Store) Put(list ...*host.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range list {
		s.put(e)
	}
}

func (s *Store) put(e *host.Event) {
	s.store.Put(e)
	s.seq++
	s.stored[e.ID] = time.Now()
}

// Hold holds an event, and tells nobody.
func (s *Store) Hold(e *host.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.Put(e)
}

// Delete removes an event that is stored or held, and tells nobody.
func (s *Store) Delete(id host.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.Delete(id)
	s.held.Delete(id)
}

// Has reports whether an event is stored.
func (s *Store) Has(id host.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.Get(id) != nil
}

// Events returns what is stored.
func (s *Store) Events() []*host.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.Query(&host.Filter{Limit: -1})
}

// Len returns how many events are stored.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.Len()
}

// Submitted returns how many events were decided.
func (s *Store) Submitted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.submitted
}

// StoredAt returns when an event was stored.
func (s *Store) StoredAt(id host.ID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored[id]
}

// Submit hands an event to the pipeline.
func (s *Store) Submit(ctx context.Context, it *host.Item) error {
	select {
	case s.queue <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decide decides about an event, and tells the follower.
func (s *Store) decide(it *host.Item) host.Verdict {
	e := it.Event
	v := s.verdict(e)
	s.mu.Lock()
	s.submitted++
	switch v.Code {
	case host.Stored:
		s.put(e)
	case host.Held:
		s.held.Put(e)
	}
	follower, seq := s.follower, s.seq
	s.mu.Unlock()
	switch {
	case follower == nil:
	case v.Code == host.Stored:
		follower.Publish([]host.Published{{Event: e, Seq: seq}})
	case v.Code == host.Held:
		follower.Follow(nil, []host.HeldChange{{Event: e, Status: host.StatusHeld, Synced: it.Source.Origin == host.FromSync}})
	}
	return v
}

func (s *Store) verdict(e *host.Event) host.Verdict {
	s.mu.Lock()
	old, policy := s.store.Newer(e), s.policy
	s.mu.Unlock()
	switch {
	case old != nil && old.ID == e.ID:
		return host.Verdict{Code: host.Duplicate}
	case old != nil:
		return host.Verdict{Code: host.Replaced}
	case s.verify(e) != nil:
		return host.Verdict{Code: host.Rejected, Reason: "invalid: forged"}
	}
	return policy(e)
}

// Get returns the text of a stored event, nil if there is none.
func (s *Store) Get(_ context.Context, id host.ID) ([]byte, error) { return s.get(s.store, id) }

// Held returns the text of a held event, nil if there is none.
func (s *Store) Held(_ context.Context, id host.ID) ([]byte, error) { return s.get(s.held, id) }

func (s *Store) get(from *relaymodel.Store, id host.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := from.Get(id); e != nil {
		return e.JSON, nil
	}
	return nil, nil
}

// Query returns the texts of stored events, newest first.
func (s *Store) Query(_ context.Context, f host.Filter) ([][]byte, error) {
	return s.query(s.store, f), nil
}

// HeldBy returns the texts of held events, newest first.
func (s *Store) HeldBy(_ context.Context, f host.Filter) ([][]byte, error) {
	return s.query(s.held, f), nil
}

func (s *Store) query(from *relaymodel.Store, f host.Filter) (texts [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range from.Query(&f) {
		texts = append(texts, e.JSON)
	}
	return texts
}

// Referenced reports whether a stored event names an id or address.
func (s *Store) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	return host.FindReference(ctx, s.Query, idOrAddress)
}

// Scan calls yield for up to limit stored events that match.
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

// Missing returns those of ids that are not stored.
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
type Memory struct {
	mu     sync.Mutex // guards the fields below
	rows   map[string][]byte
	during func()
	fail   error
}

// Fail has writes fail from now on, and during called while one writes. Both may be nil.
func (m *Memory) Fail(during func(), fail error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.during, m.fail = during, fail
}

// Rows returns what is kept.
func (m *Memory) Rows() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.rows)
}

// Load returns what is kept.
func (m *Memory) Load(context.Context) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.rows), nil
}

// Save keeps rows; nil ones are forgotten.
func (m *Memory) Save(_ context.Context, rows map[string][]byte) error {
	m.mu.Lock()
	during, fail := m.during, m.fail
	m.mu.Unlock()
	if during != nil {
		during()
	}
	if fail != nil {
		return fail
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = map[string][]byte{}
	}
	maps.Copy(m.rows, rows)
	maps.DeleteFunc(m.rows, func(_ string, row []byte) bool { return row == nil })
	return nil
}

// Holdings is what relays are believed to hold. It stays over a restart.
type Holdings struct{ Memory }

// Load returns what is kept of one relay.
func (h *Holdings) Load(_ context.Context, relay string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rows[relay], nil
}

// NoThrottle is a throttle that is not there: the host's own numbers hold.
type NoThrottle struct{}

// Ask returns [throttle.ErrNoModule].
func (NoThrottle) Ask(context.Context, throttle.Function, []byte, int64) ([]byte, error) {
	return nil, throttle.ErrNoModule
}

// Epoch is the time of tests' events, in unix seconds.
const Epoch = 1_700_000_000

var notes struct {
	mu   sync.Mutex // guards list
	list []*host.Event
}

// Notes are n events of kind 1, each a second older than the one before, the newest of
// the time Epoch. Tests share them: signing is slow.
func Notes(n int) []*host.Event {
	notes.mu.Lock()
	defer notes.mu.Unlock()
	who := testkit.NewSigner(1)
	for i := len(notes.list); i < n; i++ {
		notes.list = append(notes.list, who.Event(1, Epoch-int64(i), fmt.Sprint("note ", i)))
	}
	return notes.list[:n:n]
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
