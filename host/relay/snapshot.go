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
	// snapshotTrust is how long a snapshot is taken for exact without asking:
	// events leave the store without being published, by expiration for one.
	snapshotTrust = time.Second

	// snapshotKeep is how long a snapshot outlives its last session.
	snapshotKeep = 30 * time.Second

	// snapshotsIdle is how many snapshots without a session are kept: each event
	// that is published is compared with all snapshots.
	snapshotsIdle = 16

	// snapshotBuilds is how many are read from the store at the same time.
	snapshotBuilds = 2

	// snapshotCatchUp is how long a snapshot waits for the publication of what is
	// committed, before it is read anew.
	snapshotCatchUp = 250 * time.Millisecond

	// snapshotStep is how many records are accounted for at once.
	snapshotStep = 4096
)

var (
	errTooManyRecords = errors.New("too many records")
	errSnapshotsFull  = errors.New("too many records in all")
)

// snapshots are the sets of events that sessions reconcile against. Sessions of
// the same filter share one.
//
// A snapshot is used again if it is still exact: a client that was told OK for an
// event finds it, and one that has gone is not offered. What is new is known from
// Publish, up to the sequence number that the store has reached; what has gone is
// known from the store's count.
type snapshots struct {
	relay  *Relay
	builds chan struct{} // a place for each build

	mu       sync.Mutex // guards the fields below, and all snapshots but their sets
	byFilter map[string]*snapshot
	records  int           // in all snapshots that are cached, used or being built
	seq      int64         // published up to here
	advanced chan struct{} // closed when seq rises; nil if nobody waits
}

// snapshot is what one filter selected at one time.
type snapshot struct {
	filter host.Filter
	watch  watch // the filter, for what is published
	key    string
	ready  chan struct{} // closed when the fields below are set
	set    *negentropy.Set
	seq    int64 // every event up to this was visible
	err    error

	users   int       // sessions, and those that wait for ready
	cached  bool      // in byFilter
	records int       // accounted for
	checked time.Time // when it was last known to be exact
	matched int64     // the last published event that matches
	doubt   bool      // something published since may have removed an event
	left    time.Time // when the last user left
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
			if s.watch.matches(p.Event) {
				s.matched = p.Seq
			}
			if p.Event.Kind == host.KindDeletion || p.Event.Kind.Class() != host.Regular {
				s.doubt = true
			}
		}
	}
	if ss.advanced != nil {
		close(ss.advanced)
		ss.advanced = nil
	}
}

// acquire returns an exact snapshot of the filter, to be given back by release, and
// whether it was read from the store for this call. Its error is
// errTooManyRecords, errSnapshotsFull, or the store's.
func (ss *snapshots) acquire(ctx context.Context, f host.Filter) (s *snapshot, fresh bool, err error) {
	if f.Limit >= 0 {
		// The newest of something: one more event moves both ends.
		s := &snapshot{filter: f, ready: make(chan struct{}), users: 1}
		return ss.finish(s, true, ss.build(ctx, s))
	}
	key := canonical(&f)
	for {
		seq, err := ss.committed(ctx)
		if err != nil {
			return nil, false, err
		}
		s, mine := ss.join(key, f)
		if mine {
			return ss.finish(s, true, ss.build(ctx, s))
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			ss.release(s)
			return nil, false, ctx.Err()
		}
		if errors.Is(s.err, context.Canceled) && ctx.Err() == nil {
			ss.release(s) // the client that was building it has left
			continue
		}
		if s.err != nil {
			return ss.finish(s, false, s.err)
		}
		exact, err := ss.exact(ctx, s, seq)
		if err != nil {
			return ss.finish(s, false, err)
		}
		if exact {
			ss.relay.metrics.negReused.Inc()
			return s, false, nil
		}
		ss.forget(s)
		ss.release(s)
	}
}

// join returns the filter's snapshot with one more user, and whether it is new and
// the caller's to build.
func (ss *snapshots) join(key string, f host.Filter) (s *snapshot, mine bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s = ss.byFilter[key]
	if s == nil {
		f = sorted(f)
		s = &snapshot{filter: f, watch: watch{filter: f}, key: key, cached: true, ready: make(chan struct{})}
		ss.byFilter[key] = s
		mine = true
	}
	s.users++
	return s, mine
}

// finish returns the snapshot, or gives it back if there is an error.
func (ss *snapshots) finish(s *snapshot, fresh bool, err error) (*snapshot, bool, error) {
	if err != nil {
		ss.release(s)
		return nil, false, err
	}
	return s, fresh, nil
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

// exact reports whether the snapshot is what the filter would select now, with
// every event up to seq.
func (ss *snapshots) exact(ctx context.Context, s *snapshot, seq int64) (bool, error) {
	if !ss.caughtUp(ctx, s, seq) {
		return false, ctx.Err()
	}
	now := ss.relay.cfg.Now()
	ss.mu.Lock()
	stale := s.matched > s.seq
	trusted := !s.doubt && now.Sub(s.checked) < snapshotTrust
	s.doubt = false
	ss.mu.Unlock()
	if stale || trusted {
		return !stale, nil
	}
	n := int64(0)
	if !s.filter.Empty() {
		var err error
		n, err = ss.relay.deps.Store.Count(ctx, []host.Filter{s.filter}, now.Unix())
		if err != nil {
			return false, fmt.Errorf("count events: %w", err)
		}
	}
	if n != int64(s.set.Len()) {
		return false, nil
	}
	ss.mu.Lock()
	s.checked = now
	ss.mu.Unlock()
	return true, nil
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

// release gives a snapshot back.
func (ss *snapshots) release(s *snapshot) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.users--
	s.left = ss.relay.cfg.Now()
	ss.dropLocked(s)
	ss.forgetOldest()
}

// forgetOldest keeps the number of unused snapshots down. REQUIRES: ss.mu.
func (ss *snapshots) forgetOldest() {
	var oldest *snapshot
	idle := 0
	for _, s := range ss.byFilter {
		if s.users > 0 {
			continue
		}
		idle++
		if oldest == nil || s.left.Before(oldest.left) {
			oldest = s
		}
	}
	if idle > snapshotsIdle {
		ss.forgetLocked(oldest)
	}
}

// forget takes the snapshot out of the cache; those who use it keep it.
func (ss *snapshots) forget(s *snapshot) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.forgetLocked(s)
}

func (ss *snapshots) forgetLocked(s *snapshot) {
	if s.cached {
		s.cached = false
		delete(ss.byFilter, s.key)
	}
	ss.dropLocked(s)
}

// dropLocked ends the account of a snapshot that nobody can reach. REQUIRES: ss.mu.
func (ss *snapshots) dropLocked(s *snapshot) {
	if s.users == 0 && !s.cached {
		ss.account(-s.records)
		s.records = 0
	}
}

// sweep forgets snapshots that have not been used for a while.
func (ss *snapshots) sweep(now time.Time) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byFilter {
		if s.users == 0 && now.Sub(s.left) > snapshotKeep {
			ss.forgetLocked(s)
		}
	}
}
