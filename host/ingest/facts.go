package ingest

import (
	"context"

	"talon/host"
)

// facts are what a decision rests on: filters that match the events which would
// change it.
type facts struct {
	stored []host.Filter // by being stored or removed
	held   []host.Filter // by going into purgatory or leaving it
}

// recorder passes facts on and notes, as filters, which events would change them.
// It is a [host.RepoFacts].
type recorder struct {
	facts host.Facts
	held  host.HeldFacts // nil: there is nothing in purgatory
	read  facts
}

// Aside are the same facts for whom the decision does not depend on: nothing is
// noted.
func (r *recorder) Aside() host.Facts {
	if r.held == nil {
		return r.facts
	}
	return aside{r.facts, r.held}
}

type aside struct {
	host.Facts
	host.HeldFacts
}

func (r *recorder) Get(ctx context.Context, id host.ID) ([]byte, error) {
	r.read.stored = append(r.read.stored, host.Filter{IDs: []host.ID{id}})
	return r.facts.Get(ctx, id)
}

func (r *recorder) Query(ctx context.Context, f host.Filter) ([][]byte, error) {
	r.read.stored = append(r.read.stored, f)
	return r.facts.Query(ctx, f)
}

func (r *recorder) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	for _, name := range []byte(host.ReferenceTags) {
		r.read.stored = append(r.read.stored, host.Filter{Tags: []host.TagFilter{{Name: name, Values: []string{idOrAddress}}}})
	}
	return r.facts.Referenced(ctx, idOrAddress)
}

func (r *recorder) Held(ctx context.Context, id host.ID) ([]byte, error) {
	r.read.held = append(r.read.held, host.Filter{IDs: []host.ID{id}})
	if r.held == nil {
		return nil, nil
	}
	return r.held.Held(ctx, id)
}

func (r *recorder) HeldBy(ctx context.Context, f host.Filter) ([][]byte, error) {
	r.read.held = append(r.read.held, f)
	if r.held == nil {
		return nil, nil
	}
	return r.held.HeldBy(ctx, f)
}
