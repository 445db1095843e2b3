package relaysync

import (
	"context"
	"errors"
	"math"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/relaysync/holdings"
	"talon/host/relaysync/match"
	"talon/host/wire"
)

var errRecords = errors.New("too many events match")

// localSet returns what is here of a filter's events: stored, held, and recently
// refused. What was refused counts as here, or every comparison would find it anew.
// If within is not nil, it is what the relay is believed to hold: the rest is left out.
func (v *Sync) localSet(ctx context.Context, f host.Filter, m *match.Matcher, within *holdings.View) (*negentropy.Set, error) {
	select {
	case v.scans <- struct{}{}:
		defer func() { <-v.scans }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := v.cfg.Now().Unix()
	var b negentropy.Builder
	add := func(createdAt int64, id host.ID) {
		if createdAt >= 0 && (within == nil || within.Has(id)) {
			b.Add(negentropy.Item{CreatedAt: uint64(createdAt), ID: id})
		}
	}
	most := v.cfg.Limits.Records
	if within != nil {
		most = math.MaxInt - 1 // it has its own limit
	}
	_, n, err := v.deps.Local.Scan(ctx, f, most+1, now, add)
	if err != nil {
		return nil, err
	}
	if n > most {
		return nil, errRecords
	}
	held, err := v.deps.Facts.HeldBy(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, text := range held {
		if e, err := wire.ParseEvent(text); err == nil {
			add(e.CreatedAt, e.ID)
		}
	}
	v.known.EachRefused(m, now, add)
	return b.Build(), nil
}
