package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"talon/host"
	"talon/host/negentropy"
)

const (
	// snapshotKeep is how long a snapshot outlives its last session.
	snapshotKeep = 30 * time.Second

	// snapshotsIdle is how many snapshots without a session are kept: each event
	// that is published is compared with all snapshots.
	snapshotsIdle = 16

	// snapshotBuilds is how many are made at the same time.
	snapshotBuilds = 2

	// snapshotCatchUp is how long a snapshot waits for the publication of what is
	// committed, before it is read again.
	snapshotCatchUp = 250 * time.Millisecond

	// snapshotStep is how many records are accounted for in one step.
	snapshotStep = 4096

	// A snapshot remembers what is published until the next session, but not more
	// than snapshotStep events, or one for each recordsPerNews of its records.
	recordsPerNews = 16
)

var (
	errTooManyRecords = errors.New("too many records")
	errSnapshotsFull  = errors.New("too many records in all")
)

// snapshots are the sets of events that sessions reconcile against. Sessions of
// the same filter share one.
//
// A snapshot is used again if it is still exact: it has each event for which a client got OK, and
// none that is gone. Publish adds new events, up to the sequence number that the store has reached.
// They make a successor of the snapshot without reading the store. The store says whether any event
// has gone. If so, the number of matching events tells whether it was in the snapshot, which is
// then worthless.
type snapshots struct {
	relay  *Relay
	builds chan struct{} // a place for each build

	mu       sync.Mutex // guards the fields below, and what snapshots and lineages say it does
	byFilter map[string]*snapshot
	records  int           // accounted for
	seq      int64         // published up to here
	advanced chan struct{} // closed when seq rises; nil if nobody waits
}

// snapshot is what one filter selected at one time.
type snapshot struct {
	filter host.Filter
	watch  watch // the filter, for what is published
	key    string
	line   *snapshotFamily

	// A successor is made of base and of what was published since. They belong to
	// build, which forgets them.
	base  *snapshot
	since []laterEvent

	ready chan struct{} // closed when the fields below are set
	set   *negentropy.Set
	seq   int64 // every event up to this was visible
	err   error

	// snapshots.mu guards the fields below.
	users        int  // sessions, calls of acquire, and a successor that is being built
	cached       bool // in byFilter
	later        []laterEvent
	overrun      bool      // there was more news than is kept
	removedTotal int64     // how many events had left the store when it was last known to be exact
	lastUser     time.Time // when the last user left
}

// laterEvent is a matching event that was published after its snapshot was begun.
type laterEvent struct {
	seq  int64
	item negentropy.Item
}

func newSnapshots(r *Relay) *snapshots {
	return &snapshots{
		relay:    r,
		builds:   make(chan struct{}, snapshotBuilds),
		byFilter: make(map[string]*snapshot),
	}
}

// published notes what a commit means for the snapshots. It does not wait.
func (ss *snapshots) published(events []host.Published) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for i := range events {
		p := &events[i]
		if p.Seq == 0 {
			continue
		}
		ss.seq = max(ss.seq, p.Seq)
		for _, s := range ss.byFilter {
			if p.Event.Audience == nil && s.watch.matches(p.Event, nil) {
				s.note(p)
			}
		}
	}
	if ss.advanced != nil {
		close(ss.advanced)
		ss.advanced = nil
	}
}

// forgetAll takes all snapshots out of the cache, and only then looks at any of them.
func (ss *snapshots) forgetAll() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	all := ss.byFilter
	ss.byFilter = make(map[string]*snapshot)
	for _, s := range all {
		s.cached, s.later = false, nil
	}
	for _, s := range all {
		ss.dropLocked(s)
	}
}

// note remembers a matching event for the snapshot's successor. REQUIRES:
// snapshots.mu.
func (s *snapshot) note(p *host.Published) {
	switch {
	case s.overrun:
	case len(s.later) >= max(snapshotStep, s.line.records/recordsPerNews):
		s.overrun, s.later = true, nil
	default:
		s.later = append(s.later, laterEvent{p.Seq, negentropy.Item{CreatedAt: uint64(p.Event.CreatedAt), ID: p.Event.ID}})
	}
}

// unseen returns the news that was not visible to the snapshot's own read.
// REQUIRES: snapshots.mu, and the snapshot is ready.
func (s *snapshot) unseen() []laterEvent {
	for i := range s.later {
		if s.later[i].seq > s.seq {
			return s.later[i:]
		}
	}
	return nil
}

// acquire returns an exact snapshot of the filter, to be given back by release, and
// how many records were read or copied for this call. Its error is
// errTooManyRecords, errSnapshotsFull, or the store's.
func (ss *snapshots) acquire(ctx context.Context, f host.Filter) (s *snapshot, cost int, err error) {
	f = f.Canonical()
	if f.Limit >= 0 {
		// The newest of something: one more event moves both ends.
		return ss.try(ctx, newSnapshot(f, ""), true, 0)
	}
	key := f.Key()
	seq, err := ss.committed(ctx)
	for s == nil && err == nil {
		next, mine := ss.join(key, f, seq)
		s, cost, err = ss.try(ctx, next, mine, seq)
	}
	return s, cost, err
}

func newSnapshot(f host.Filter, key string) *snapshot {
	return &snapshot{
		filter: f, watch: watch{filter: f}, key: key,
		line:  new(snapshotFamily),
		ready: make(chan struct{}),
		users: 1,
	}
}

// join returns the filter's snapshot with one more user, and whether it is new and
// the caller's to build: the first one, or the successor of one that is known to
// lack something up to seq.
func (ss *snapshots) join(key string, f host.Filter, seq int64) (s *snapshot, mine bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s = ss.byFilter[key]
	if s != nil && s.overrun && s.set != nil {
		ss.forgetLocked(s)
		s = nil
	}
	switch {
	case s == nil:
		s = newSnapshot(f, key)
	case s.set != nil && (ss.seq >= seq || s.seq >= seq) && len(s.unseen()) > 0:
		s = ss.succeed(s)
	default:
		s.users++
		return s, false
	}
	s.cached = true
	ss.byFilter[key] = s
	return s, true
}

// succeed returns what will be the snapshot's successor, which uses it until it is
// built. REQUIRES: ss.mu.
func (ss *snapshots) succeed(s *snapshot) *snapshot {
	next := newSnapshot(s.filter, s.key)
	next.base, next.since, next.line = s, s.unseen(), s.line
	next.seq = max(s.seq, ss.seq)
	next.removedTotal = s.removedTotal
	s.later, s.cached = nil, false
	s.users++
	return next
}

// try returns the snapshot, of which the caller is a user, when it is ready and
// exact up to seq, and what that took. Otherwise it gives it back; without an error
// another one may do.
func (ss *snapshots) try(ctx context.Context, s *snapshot, mine bool, seq int64) (_ *snapshot, cost int, err error) {
	good := false
	defer func() {
		if !good {
			ss.release(s) // also after a panic
		}
	}()
	read := mine && s.base == nil // from the store, which is exact
	if mine {
		cost, err = ss.build(ctx, s)
	} else {
		err = ss.await(ctx, s)
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			return nil, 0, nil // the client that was building it has left
		}
	}
	if err != nil {
		return nil, 0, err
	}
	if !read {
		if exact, err := ss.revalidate(ctx, s, seq); !exact || err != nil {
			return nil, 0, err
		}
	}
	good = true
	if !mine {
		ss.relay.metrics.negReused.Inc()
	}
	return s, cost, nil
}

// await waits until the snapshot is ready.
func (ss *snapshots) await(ctx context.Context, s *snapshot) error {
	select {
	case <-s.ready:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// build makes the snapshot, from the store or from its base, and returns how many
// records were read or copied for it.
func (ss *snapshots) build(ctx context.Context, s *snapshot) (cost int, err error) {
	base := s.base
	defer func() {
		if s.set == nil {
			if err == nil {
				err = errors.New("make snapshot: no set") // a panic is on its way
			}
			s.err = err
			ss.forget(s)
		}
		s.base, s.since = nil, nil
		close(s.ready)
		if base != nil {
			ss.release(base)
		}
	}()
	select {
	case ss.builds <- struct{}{}:
		defer func() { <-ss.builds }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if base != nil {
		return ss.extend(s)
	}
	return ss.read(ctx, s)
}

// extend makes the snapshot of its base.
func (ss *snapshots) extend(s *snapshot) (cost int, err error) {
	more := make([]negentropy.Item, len(s.since))
	for i := range s.since {
		more[i] = s.since[i].item
	}
	set := s.base.set.With(more...)
	if set.Len() > ss.relay.cfg.Limits.NegRecords {
		return 0, errTooManyRecords
	}
	if !ss.complete(s, set) {
		return 0, errSnapshotsFull
	}
	ss.relay.metrics.negExtended.Inc()
	return set.Len() - set.Shared(s.base.set), nil
}

// read makes the snapshot of what the store has.
func (ss *snapshots) read(ctx context.Context, s *snapshot) (cost int, err error) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	limit := ss.relay.cfg.Limits.NegRecords
	ask := limit + 1
	if s.filter.Limit >= 0 {
		ask = min(ask, s.filter.Limit)
	}
	// Read first: what leaves from here on is noticed.
	s.removedTotal = ss.relay.deps.Store.RemovedTotal()
	var b negentropy.Builder
	if !s.filter.Empty() && ask > 0 {
		s.seq, _, err = ss.relay.deps.Store.Scan(ctx, s.filter, ask, ss.relay.cfg.Now().Unix(), func(createdAt int64, id host.ID) {
			if b.Len()%snapshotStep == 0 && ctx.Err() == nil && !ss.reserve(s.line, snapshotStep) {
				cancel(errSnapshotsFull)
			}
			if ctx.Err() == nil {
				b.Add(negentropy.Item{CreatedAt: uint64(createdAt), ID: id})
			}
		})
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("scan events: %w", err)
	case b.Len() > limit:
		return 0, errTooManyRecords
	}
	set := b.Build()
	if !ss.complete(s, set) {
		return 0, errSnapshotsFull
	}
	ss.relay.metrics.negBuild.Observe(time.Since(began).Seconds())
	return set.Len(), nil
}

// committed returns the sequence number that the store has reached.
func (ss *snapshots) committed(ctx context.Context) (int64, error) {
	nothing := []host.Filter{{IDs: []host.ID{{}}, Limit: 1}}
	sel, err := ss.relay.deps.Store.Select(ctx, nothing, ss.relay.cfg.Now().Unix())
	if err != nil {
		return 0, fmt.Errorf("read sequence: %w", err)
	}
	return sel.Seq, nil
}

// revalidate reports whether the snapshot is what the filter would select now, with
// every event up to seq. If it is not, it may have a successor that is; if that
// would not help, the snapshot is forgotten.
func (ss *snapshots) revalidate(ctx context.Context, s *snapshot, seq int64) (bool, error) {
	if !ss.caughtUp(ctx, s, seq) {
		ss.forget(s)
		return false, ctx.Err()
	}
	now := ss.relay.cfg.Now()
	store := ss.relay.deps.Store
	left := store.RemovedTotal()
	expiry, dated := store.NextExpiry()
	ss.mu.Lock()
	stale := s.seq < seq && s.mayMiss(seq)
	kept := left == s.removedTotal && !(dated && expiry <= now.Unix())
	ss.mu.Unlock()
	if stale || kept {
		return !stale, nil
	}
	whole, err := ss.whole(ctx, s, now)
	if err != nil {
		return false, err
	}
	if !whole {
		ss.forget(s)
		return false, nil
	}
	ss.mu.Lock()
	s.removedTotal = left
	ss.mu.Unlock()
	return true, nil
}

// mayMiss reports whether a matching event that was published up to seq may be
// missing. REQUIRES: snapshots.mu.
func (s *snapshot) mayMiss(seq int64) bool {
	if !s.cached || s.overrun {
		return true // it does not get everything
	}
	unseen := s.unseen()
	return len(unseen) > 0 && unseen[0].seq <= seq
}

// whole reports whether the store still has all events of the snapshot: the count is the same, or
// higher by the number published since.
func (ss *snapshots) whole(ctx context.Context, s *snapshot, now time.Time) (bool, error) {
	if s.filter.Empty() {
		return s.set.Len() == 0, nil
	}
	n, err := ss.relay.deps.Store.Count(ctx, []host.Filter{s.filter}, now.Unix())
	if err != nil {
		return false, fmt.Errorf("count events: %w", err)
	}
	extra := int(n) - s.set.Len()
	if extra <= 0 {
		return extra == 0, nil
	}
	seq, err := ss.committed(ctx)
	if err != nil {
		return false, err
	}
	if !ss.caughtUp(ctx, s, seq) {
		return false, ctx.Err()
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return extra <= len(s.unseen()), nil
}

// caughtUp waits until what the store has committed up to seq is known here, by
// the snapshot itself or from Publish. It reports false if that takes too long:
// another process may write the store.
func (ss *snapshots) caughtUp(ctx context.Context, s *snapshot, seq int64) bool {
	if s.seq >= seq {
		return true
	}
	timer := time.NewTimer(snapshotCatchUp)
	defer timer.Stop()
	for {
		ss.mu.Lock()
		if ss.seq >= seq {
			ss.mu.Unlock()
			return true
		}
		if ss.advanced == nil {
			ss.advanced = make(chan struct{})
		}
		advanced := ss.advanced
		ss.mu.Unlock()
		select {
		case <-advanced:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
