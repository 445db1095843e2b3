package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talon/host"
	"talon/host/negentropy"
)

// build reads the snapshot from the store.
func (ss *snapshots) build(ctx context.Context, s *snapshot) (err error) {
	defer func() {
		if s.set == nil {
			if err == nil {
				err = errors.New("read snapshot: no set") // a panic is on its way
			}
			s.err = err
			ss.forget(s)
		}
		close(s.ready)
	}()
	select {
	case ss.builds <- struct{}{}:
		defer func() { <-ss.builds }()
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	most := ss.relay.cfg.Limits.NegRecords
	ask := most + 1
	if s.filter.Limit >= 0 {
		ask = min(ask, s.filter.Limit)
	}
	now := ss.relay.cfg.Now()
	var b negentropy.Builder
	if !s.filter.Empty() && ask > 0 {
		s.seq, _, err = ss.relay.deps.Store.Scan(ctx, s.filter, ask, now.Unix(), func(createdAt int64, id host.ID) {
			if b.Len()%snapshotStep == 0 && ctx.Err() == nil && !ss.reserve(s, snapshotStep) {
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
		return fmt.Errorf("scan events: %w", err)
	case b.Len() > most:
		return errTooManyRecords
	}
	set := b.Build()
	ss.mu.Lock()
	s.set, s.checked = set, now
	ss.mu.Unlock()
	ss.relay.metrics.negBuild.Observe(time.Since(began).Seconds())
	return nil
}

// reserve accounts for n more records of a snapshot. Those that nobody uses make
// room.
func (ss *snapshots) reserve(s *snapshot, n int) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	most := ss.relay.cfg.Limits.NegRecordsTotal
	for _, idle := range ss.byFilter {
		if ss.records+n <= most {
			break
		}
		if idle.users == 0 {
			ss.forgetLocked(idle)
		}
	}
	if ss.records+n > most {
		return false
	}
	s.records += n
	ss.account(n)
	return true
}

// account adds to the records in all. REQUIRES: ss.mu.
func (ss *snapshots) account(n int) {
	ss.records += n
	ss.relay.metrics.negRecords.Add(float64(n))
}
