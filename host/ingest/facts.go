package ingest

import (
	"context"

	"talon/host"
)

// recorder passes facts on and notes, as filters, which events would change them.
type recorder struct {
	facts host.Facts
	read  []host.Filter
}

func (r *recorder) Get(ctx context.Context, id host.ID) ([]byte, error) {
	r.read = append(r.read, host.Filter{IDs: []host.ID{id}})
	return r.facts.Get(ctx, id)
}

func (r *recorder) Query(ctx context.Context, f host.Filter) ([][]byte, error) {
	r.read = append(r.read, f)
	return r.facts.Query(ctx, f)
}

func (r *recorder) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	for _, name := range []byte(host.ReferenceTags) {
		r.read = append(r.read, host.Filter{Tags: []host.TagFilter{{Name: name, Values: []string{idOrAddress}}}})
	}
	return r.facts.Referenced(ctx, idOrAddress)
}
