package store

import (
	"context"
	"errors"

	"talon/host"
)

// Scan calls yield for each event that matches, for at most most of them, and
// returns how many they were: a caller that must know whether there are more
// asks for one more. Every event with a Seq up to seq was visible to it. yield
// must not wait.
//
// If the filter has a limit, the order is that of answers. Otherwise it is that
// of the index: newest first, ties by lowest id, where the filter names no kinds,
// authors, tags or ids; for others such runs follow each other.
func (s *Store) Scan(ctx context.Context, f host.Filter, most int, now int64, yield func(createdAt int64, id host.ID)) (seq int64, n int, err error) {
	if f.Limit >= 0 {
		most = min(most, f.Limit)
	}
	err = s.view(ctx, opScan, now, func(v *snapshot) error {
		seq = v.seq
		if empty(&f) || most <= 0 {
			return nil
		}
		give := func(m *match) error {
			yield(m.at, m.id)
			if n++; n == most {
				return errEnough
			}
			return nil
		}
		var err error
		if f.Limit >= 0 {
			err = v.scanTop(ctx, &f, most, give)
		} else {
			n := needPlace
			if f.Tags != nil {
				n = needMeta // for the id
			}
			err = v.every(ctx, []host.Filter{f}, n, give)
		}
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	return seq, n, err
}

func (v *snapshot) scanTop(ctx context.Context, f *host.Filter, most int, give func(*match) error) error {
	found, err := v.top(ctx, f, most)
	if err != nil {
		return err
	}
	all := &plan{filter: f}
	for len(found) > 0 {
		part := make([]match, min(len(found), v.tune.chunkMost))
		for i := range part {
			part[i].place = found[i]
		}
		if err := v.lookUp(all, needMeta, part, give); err != nil {
			return err
		}
		found = found[len(part):]
	}
	return nil
}
