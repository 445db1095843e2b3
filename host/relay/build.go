package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talon/host"
	"talon/host/negentropy"
)

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

	most := ss.relay.cfg.Limits.NegRecords
	ask := most + 1
	if s.filter.Limit >= 0 {
		ask = min(ask, s.filter.Limit)
	}
	// Read first: what leaves from here on is noticed.
	s.left = ss.relay.deps.Store.Left()
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
	case b.Len() > most:
		return 0, errTooManyRecords
	}
	set := b.Build()
	if !ss.complete(s, set) {
		return 0, errSnapshotsFull
	}
	ss.relay.metrics.negBuild.Observe(time.Since(began).Seconds())
	return set.Len(), nil
}
