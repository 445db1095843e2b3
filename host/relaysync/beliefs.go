package relaysync

import (
	"context"
	"maps"
	"sync"
	"time"

	"talon/host/relaysync/holdings"
)

// Holdings stores which events relays are believed to hold, across restarts. Any
// goroutine may call it. A lost record costs bytes, never events.
type Holdings interface {
	Load(ctx context.Context, relay string) ([]byte, error)   // nil: nothing is known
	Save(ctx context.Context, relays map[string][]byte) error // those that changed; nil: forgotten
}

// beliefs holds what lines have learnt of their relays until it is written, many in one
// transaction. Only relays that are connected have a set in memory.
type beliefs struct {
	keep  Holdings // nil: nothing is kept
	limit int      // events of one relay

	mu      sync.Mutex // guards the fields below
	pending map[string][]byte
	writing map[string][]byte
}

func newBeliefs(keep Holdings, limit int) *beliefs {
	return &beliefs{keep: keep, limit: limit, pending: make(map[string][]byte)}
}

// get returns what a relay is believed to hold.
func (s *beliefs) get(ctx context.Context, relay string) (*holdings.Set, error) {
	if s.keep == nil {
		return nil, nil
	}
	s.mu.Lock()
	b, ok := s.pending[relay]
	if !ok {
		b, ok = s.writing[relay]
	}
	s.mu.Unlock()
	var err error
	if !ok {
		b, err = s.keep.Load(ctx, relay)
	}
	return holdings.Decode(b, s.limit), err
}

// put has something written; nil forgets the relay.
func (s *beliefs) put(relay string, b []byte) {
	if s.keep == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[relay] = b
}

// flush writes what was put. One goroutine calls it.
func (s *beliefs) flush(ctx context.Context) error {
	s.mu.Lock()
	list := s.pending
	s.pending, s.writing = make(map[string][]byte), list
	s.mu.Unlock()
	var err error
	if len(list) > 0 {
		err = s.keep.Save(ctx, list)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = nil
	if err != nil {
		maps.Copy(list, s.pending) // what is newer counts
		s.pending = list
	}
	return err
}

// run writes from time to time until ctx ends. Who calls it flushes once more.
func (s *beliefs) run(ctx context.Context, every time.Duration, failed func(error)) {
	if s.keep != nil {
		writeEvery(ctx, every, s.flush, failed)
	}
}

// writeEvery writes from time to time until ctx ends, and lets each write come to its end.
func writeEvery(ctx context.Context, every time.Duration, write func(context.Context) error, failed func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := write(context.WithoutCancel(ctx)); err != nil {
			failed(err)
		}
	}
}
