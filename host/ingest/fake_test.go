package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/host/memfacts"
	"talon/host/moderation"
)

// memory is a store in memory that fails on request. Purgatory has no rules but that an event
// is there once.
type memory struct {
	mu        sync.Mutex
	events    map[host.ID]*host.Event
	held      map[host.ID]*host.Event
	heldUntil int64 // when all that is held expires, 0 is never
	seq       int64
	commits   int
	log       moderationTable
	putFails  func(*host.Event) error
	preFails  int // commits that fail before anything is persisted
	postFails int // commits that persist and fail all the same

	commitPanics, sweepPanics int
	open                      int // transactions
	gate                      chan struct{}
}

func newMemory() *memory {
	return &memory{events: map[host.ID]*host.Event{}, held: map[host.ID]*host.Event{}}
}

type memoryTx struct {
	m       *memory
	added   []*host.Event
	removed []*host.Event
	holds   []*host.Event
	leaves  []*host.Event // of purgatory
}

func (m *memory) Begin() (Tx, error) {
	m.open++
	return &memoryTx{m: m}, nil
}

func (m *memory) NextExpiry() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first int64
	for _, e := range m.events {
		if at, ok := e.Expiration(); ok && (first == 0 || at < first) {
			first = at
		}
	}
	return first, first != 0
}

func (tx *memoryTx) Put(e *host.Event, now int64) (host.Outcome, error) {
	if f := tx.m.putFails; f != nil {
		if err := f(e); err != nil {
			return host.Outcome{}, err
		}
	}
	tx.m.mu.Lock()
	defer tx.m.mu.Unlock()
	if tx.m.events[e.ID] != nil || slices.ContainsFunc(tx.added, func(other *host.Event) bool { return other.ID == e.ID }) {
		return host.Outcome{Code: host.Duplicate, Reason: "duplicate: already have this event"}, nil
	}
	out := host.Outcome{Code: host.Stored}
	if e.Kind == host.KindDeletion {
		for _, tag := range e.Tags {
			var id host.ID
			if host.ParseHex(id[:], tag[1]) && tx.m.events[id] != nil {
				out.Removed = append(out.Removed, tx.m.events[id])
			}
		}
	}
	tx.m.seq++
	out.Seq = tx.m.seq
	tx.added = append(tx.added, e)
	tx.removed = append(tx.removed, out.Removed...)
	return out, nil
}

func (tx *memoryTx) SetAudience(id host.ID, a *host.Audience) (*host.AudienceChange, error) {
	tx.m.mu.Lock()
	defer tx.m.mu.Unlock()
	old := tx.m.events[id]
	if old == nil || old.Audience.Equal(a) {
		return nil, nil
	}
	tx.m.seq++
	out := &host.AudienceChange{Before: old, After: old.For(a), Seq: tx.m.seq}
	tx.removed = append(tx.removed, old)
	tx.added = append(tx.added, out.After)
	return out, nil
}

func (tx *memoryTx) Sweep(now int64, limit int) ([]*host.Event, error) {
	tx.m.mu.Lock()
	defer tx.m.mu.Unlock()
	if tx.m.sweepPanics > 0 {
		tx.m.sweepPanics--
		panic("planted")
	}
	for _, e := range tx.m.events {
		if at, ok := e.Expiration(); ok && at <= now && len(tx.removed) < limit {
			tx.removed = append(tx.removed, e)
		}
	}
	return tx.removed, nil
}

func (m *memory) NextHeld() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heldUntil, m.heldUntil != 0 && len(m.held) > 0
}

func (tx *memoryTx) Hold(e *host.Event, h host.HoldOptions, _ int64) (host.Outcome, error) {
	if f := tx.m.putFails; f != nil {
		if err := f(e); err != nil {
			return host.Outcome{}, err
		}
	}
	tx.m.mu.Lock()
	defer tx.m.mu.Unlock()
	out := host.Outcome{Code: host.Held, Reason: h.Reason}
	if tx.m.held[e.ID] == nil {
		tx.holds = append(tx.holds, e)
		out.Held = []host.HeldChange{{Event: e, Status: host.StatusHeld}}
	}
	return out, nil
}

func (tx *memoryTx) Release(r host.Release, now int64) (out host.ReleaseOutcome, err error) {
	for _, id := range r.IDs {
		tx.m.mu.Lock()
		e := tx.m.held[id]
		tx.m.mu.Unlock()
		if e == nil {
			out.Events = append(out.Events, host.Released{ID: id, Status: host.StatusAbsent})
			continue
		}
		put, err := tx.Put(e, now)
		if err != nil {
			return out, err
		}
		tx.leaves = append(tx.leaves, e)
		out.Held = append(out.Held, host.HeldChange{Event: e, Status: host.StatusReleased})
		out.Events = append(out.Events, host.Released{ID: id, Status: host.StatusReleased, Event: e, Seq: put.Seq})
	}
	return out, nil
}

func (tx *memoryTx) SweepHeld(now int64, limit int) (changes []host.HeldChange, err error) {
	tx.m.mu.Lock()
	defer tx.m.mu.Unlock()
	for _, e := range tx.m.held {
		if tx.m.heldUntil <= now && len(tx.leaves) < limit {
			tx.leaves = append(tx.leaves, e)
			changes = append(changes, host.HeldChange{Event: e, Status: host.StatusExpired})
		}
	}
	return changes, nil
}

func (tx *memoryTx) TakeDown(t host.Takedown, _ int64) (out host.TakedownOutcome, err error) {
	tx.m.mu.Lock()
	defer tx.m.mu.Unlock()
	for _, id := range append(slices.Clone(t.Hide), t.Purge...) {
		if e := tx.m.events[id]; e != nil {
			tx.removed, out.Removed = append(tx.removed, e), append(out.Removed, e)
		}
	}
	return out, nil
}

func (tx *memoryTx) AddModeration(list []moderation.Row, now int64) ([]moderation.Row, error) {
	return moderation.Add(&tx.m.log, list, now)
}

// moderationTable is the table of the log in memory. Tests roll no row back.
type moderationTable struct{ rows []moderation.Row }

func (t *moderationTable) LastModeration() (number, at int64, err error) {
	if n := len(t.rows); n > 0 {
		number, at = t.rows[n-1].Number, t.rows[n-1].At
	}
	return number, at, nil
}

func (t *moderationTable) HasModeration(uid string) (bool, error) {
	return slices.ContainsFunc(t.rows, func(r moderation.Row) bool { return r.UID == uid }), nil
}

func (t *moderationTable) InsertModeration(r *moderation.Row) error {
	t.rows = append(t.rows, *r)
	return nil
}

var errDisk = errors.New("disk is full")

func (tx *memoryTx) Commit() error {
	if tx.m.gate != nil {
		<-tx.m.gate
	}
	if tx.m.commitPanics > 0 {
		tx.m.commitPanics--
		panic("planted")
	}
	tx.m.mu.Lock()
	defer tx.m.mu.Unlock()
	tx.m.open--
	tx.m.commits++
	if tx.m.preFails > 0 {
		tx.m.preFails--
		return errDisk
	}
	for _, e := range tx.added {
		tx.m.events[e.ID] = e
	}
	for _, e := range tx.removed {
		delete(tx.m.events, e.ID)
	}
	for _, e := range tx.holds {
		tx.m.held[e.ID] = e
	}
	for _, e := range tx.leaves {
		delete(tx.m.held, e.ID)
	}
	if tx.m.postFails > 0 {
		tx.m.postFails--
		return errDisk
	}
	return nil
}

func (tx *memoryTx) Rollback() error {
	tx.m.open--
	return nil
}

func (m *memory) Get(_ context.Context, id host.ID) ([]byte, error) { return m.get(m.events, id), nil }

func (m *memory) Held(_ context.Context, id host.ID) ([]byte, error) { return m.get(m.held, id), nil }

func (m *memory) get(in map[host.ID]*host.Event, id host.ID) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := in[id]; e != nil {
		return e.JSON
	}
	return nil
}

func (m *memory) Query(_ context.Context, f host.Filter) ([][]byte, error) {
	return m.find(m.events, f), nil
}

func (m *memory) HeldBy(_ context.Context, f host.Filter) ([][]byte, error) {
	return m.find(m.held, f), nil
}

// find returns the texts of events that match, in the order of answers.
func (m *memory) find(in map[host.ID]*host.Event, f host.Filter) (texts [][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return memfacts.Query(slices.Collect(maps.Values(in)), f)
}

func (m *memory) Referenced(ctx context.Context, s string) (bool, error) {
	return host.FindReference(ctx, m.Query, s)
}

// policyFunc is a policy as a function.
type policyFunc func(ctx context.Context, it *host.Item, facts host.Facts) host.Ruling

func (f policyFunc) Admit(ctx context.Context, it *host.Item, facts *host.FactReader, _ int64) (host.Ruling, error) {
	return f(ctx, it, facts), nil
}

func acceptAll(context.Context, *host.Item, host.Facts) host.Ruling {
	return host.Ruling{Action: host.Accept}
}

// needsParent accepts an event without e tags, and one whose first e tag names a
// stored event.
func needsParent(ctx context.Context, it *host.Item, facts host.Facts) host.Ruling {
	for _, tag := range it.Event.Tags {
		if tag[0] != "e" {
			continue
		}
		var id host.ID
		host.ParseHex(id[:], tag[1])
		if found, _ := facts.Get(ctx, id); found == nil {
			return host.Ruling{Action: host.Reject, Reason: "blocked: orphan"}
		}
	}
	return host.Ruling{Action: host.Accept}
}

// follower records its calls.
type follower struct {
	mu      sync.Mutex // guards the fields below
	events  []host.Published
	removed []*host.Event
	held    []host.HeldChange
	panics  int
}

func (f *follower) Publish(events []host.Published) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics > 0 {
		f.panics--
		panic("planted")
	}
	f.events = append(f.events, events...)
}

func (f *follower) Follow(removed []*host.Event, held []host.HeldChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, removed...)
	f.held = append(f.held, held...)
}

func (f *follower) fates() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.held {
		list = append(list, c.Status.String())
	}
	return list
}

type rig struct {
	*Pipeline
	store *memory
	out   *follower
	stop  func()
}

// start runs a pipeline for the test.
func start(t testing.TB, policy policyFunc, change func(*Config)) *rig {
	t.Helper()
	return startWith(t, policy, change, nil, nil)
}

// startWith is start on a store that other processes write too, if that is not nil.
func startWith(t testing.TB, policy policyFunc, change func(*Config), shared Shared, remote func(host.Commit)) *rig {
	t.Helper()
	r := &rig{store: newMemory(), out: &follower{}}
	cfg := Config{
		Verify: func(*host.Event) error { return nil },
		Policy: policy, Store: r.store, Facts: r.store, Held: r.store,
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Workers: 4, Queue: 512, Batch: 64,
	}
	if change != nil {
		change(&cfg)
	}
	r.Pipeline = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run := func() error { return r.Run(ctx, r.out) }
		if shared != nil {
			run = func() error { return r.RunShared(ctx, shared, r.out, remote) }
		}
		if err := run(); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	return r
}

type reply struct {
	verdict host.Verdict
	err     error
}

// send queues events from one source, whose answers the channel receives, in the order in
// which they come. It has room for them.
func (r *rig) send(t testing.TB, src *host.Source, answers chan<- reply, events ...*host.Event) {
	t.Helper()
	for _, e := range events {
		done := func(v host.Verdict, err error) { answers <- reply{v, err} }
		if err := r.Submit(context.Background(), &host.Item{Event: e, Source: src, Done: done}); err != nil {
			t.Fatal(err)
		}
	}
}

// submit is send, and returns the answers when all are there.
func (r *rig) submit(t testing.TB, src *host.Source, events ...*host.Event) []reply {
	t.Helper()
	answers := make(chan reply, len(events))
	r.send(t, src, answers, events...)
	list := make([]reply, len(events))
	for i := range list {
		list[i] = <-answers
	}
	return list
}

// event makes event n, with the tags given.
func event(n int, tags ...host.Tag) *host.Event {
	e := &host.Event{Kind: 1, CreatedAt: 1000, Tags: tags}
	binary.BigEndian.PutUint64(e.ID[:], uint64(n))
	e.JSON = e.AppendJSON(nil)
	return e
}

func replyTo(n, parent int) *host.Event {
	return event(n, host.Tag{"e", event(parent).ID.String()})
}

func (tx *memoryTx) Vanish(*host.VanishRequest) (host.Outcome, error) {
	return host.Outcome{Code: host.Stored}, nil
}
