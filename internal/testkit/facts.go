package testkit

import (
	"bytes"
	"context"

	"talon/host"
)

// Store is a store as Facts reads it.
type Store interface {
	Get(ctx context.Context, id host.ID) ([]byte, error)
	Referenced(ctx context.Context, idOrAddress string) (bool, error)
	Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error)
	Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error
}

// Facts are the events of a store as a policy reads them, at a time in unix seconds.
type Facts struct {
	Store
	Now int64
}

// Query returns the events that match, newest first.
func (f Facts) Query(ctx context.Context, filter host.Filter) (list [][]byte, err error) {
	found, err := f.Select(ctx, []host.Filter{filter}, f.Now)
	if err != nil {
		return nil, err
	}
	err = f.Fetch(ctx, found.Rows, func(_ int64, json []byte) error {
		list = append(list, bytes.Clone(json))
		return nil
	})
	return list, err
}
