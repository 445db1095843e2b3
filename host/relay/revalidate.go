package relay

import (
	"context"
	"fmt"
	"time"

	"talon/host"
)

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
	left := store.Left()
	expiry, dated := store.NextExpiry()
	ss.mu.Lock()
	stale := s.seq < seq && s.lacks(seq)
	kept := left == s.left && !(dated && expiry <= now.Unix())
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
	s.left = left
	ss.mu.Unlock()
	return true, nil
}

// lacks reports whether a matching event that was published up to seq may be
// missing. REQUIRES: snapshots.mu.
func (s *snapshot) lacks(seq int64) bool {
	if !s.cached || s.overrun {
		return true // it is not told of everything
	}
	unseen := s.unseen()
	return len(unseen) > 0 && unseen[0].seq <= seq
}

// whole reports whether the store still has what the snapshot has: it counts as
// many, or so many more as were published meanwhile.
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
