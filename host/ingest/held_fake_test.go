package ingest

import (
	"context"
	"sync"

	"talon/host"
)

// Purgatory of the store in memory: no rules but that an event is there once.

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

func (m *memory) Held(_ context.Context, id host.ID) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.held[id]; e != nil {
		return e.JSON, nil
	}
	return nil, nil
}

func (m *memory) HeldBy(_ context.Context, f host.Filter) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*host.Event
	for _, e := range m.held {
		if f.Matches(e) {
			found = append(found, e)
		}
	}
	return inOrder(found, f.Limit), nil
}

// follower records its calls, and what was published.
type follower struct {
	published
	mu      sync.Mutex // guards the fields below
	removed []*host.Event
	held    []host.HeldChange
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
