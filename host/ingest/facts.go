package ingest

import (
	"context"
	"time"

	"talon/host"
)

// facts are what a decision rests on: filters that match the events which would
// change it.
type facts struct {
	stored []host.Filter // by being stored or removed
	held   []host.Filter // by going into purgatory or leaving it
}

// recorder passes facts on and notes, as filters, which events would change them.
// It is a [host.RepoFacts], a [host.Waiter] and [host.Parked].
type recorder struct {
	view   view
	work   *schedule
	notes  facts
	parked time.Duration
}

// recorder returns the facts for one decision of an entry.
func (p *Pipeline) recorder(e *entry) recorder {
	return recorder{view: view{stored: p.cfg.Facts, held: p.cfg.Held, open: e.open}, work: p.schedule}
}

// Wait runs f, which may block, while another worker decides.
func (r *recorder) Wait(f func()) { r.parked += r.work.wait(f) }

// read runs f, which reads a fact.
func (r *recorder) read(f func()) { r.parked += r.work.read(f) }

// Parked returns for how long the decision has waited for a worker after its waits.
func (r *recorder) Parked() time.Duration { return r.parked }

// Aside returns the same facts without recording what is read: for whom the decision
// does not depend on.
func (r *recorder) Aside() host.Facts { return &aside{recorder{view: r.view, work: r.work}} }

// aside are facts whose reader's decision has no effect.
type aside struct{ recorder }

func (r *recorder) Get(ctx context.Context, id host.ID) (text []byte, err error) {
	r.notes.stored = append(r.notes.stored, host.Filter{IDs: []host.ID{id}})
	r.read(func() { text, err = r.view.get(ctx, id) })
	return text, err
}

func (r *recorder) Query(ctx context.Context, f host.Filter) (found [][]byte, err error) {
	r.notes.stored = append(r.notes.stored, f)
	r.read(func() { found, err = r.view.query(ctx, f) })
	return found, err
}

func (r *recorder) Referenced(ctx context.Context, idOrAddress string) (yes bool, err error) {
	for _, name := range []byte(host.ReferenceTags) {
		r.notes.stored = append(r.notes.stored, referenceFilter(name, idOrAddress))
	}
	r.read(func() { yes, err = r.view.referenced(ctx, idOrAddress) })
	return yes, err
}

func referenceFilter(name byte, idOrAddress string) host.Filter {
	return host.Filter{Tags: []host.TagFilter{{Name: name, Values: []string{idOrAddress}}}, Limit: 1}
}

func (r *recorder) Held(ctx context.Context, id host.ID) (text []byte, err error) {
	r.notes.held = append(r.notes.held, host.Filter{IDs: []host.ID{id}})
	if r.view.held == nil {
		return nil, nil
	}
	r.read(func() { text, err = r.view.heldByID(ctx, id) })
	return text, err
}

func (r *recorder) HeldBy(ctx context.Context, f host.Filter) (found [][]byte, err error) {
	r.notes.held = append(r.notes.held, f)
	if r.view.held == nil {
		return nil, nil
	}
	r.read(func() { found, err = r.view.heldBy(ctx, f) })
	return found, err
}
