package ingest

import (
	"context"
	"fmt"
	"slices"

	"talon/host"
	"talon/host/moderation"
	"talon/host/wire"
)

// barred returns the verdict on an event that the moderation log bars, nil for others.
func (p *Pipeline) barred(e *host.Event, now int64) *host.Verdict {
	r := p.cfg.Moderation.Event(e, now)
	if r == nil {
		return nil
	}
	p.metrics.barred.WithLabelValues(string(r.Action)).Inc()
	return &host.Verdict{Code: host.Rejected, Reason: r.Refusal()}
}

// withoutBarred takes the events that the moderation log bars out of a release. They are on
// their way out of purgatory.
func (p *Pipeline) withoutBarred(ctx context.Context, r *host.Release, facts *host.FactReader, now int64) (err error) {
	if p.cfg.Moderation.Number() == 0 {
		return nil
	}
	r.IDs = slices.DeleteFunc(slices.Clone(r.IDs), func(id host.ID) bool {
		text, failed := facts.Held(ctx, id)
		if failed != nil || text == nil {
			err = failed
			return false
		}
		e, failed := wire.ParseEvent(text)
		return failed == nil && p.cfg.Moderation.Event(e, now) != nil
	})
	return err
}

// operation is a change of the store that the operator wants. It runs in the writer's turn, in
// a transaction of its own.
type operation struct {
	do    func(b *batch) error
	after func() // runs after the commit, before any other event is written; may be nil
	done  chan error
}

// perform has the writer carry out an operation, and waits for it.
func (p *Pipeline) perform(ctx context.Context, o *operation) error {
	o.done = make(chan error, 1)
	select {
	case p.operations <- o:
	case <-p.ended:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return <-o.done // the writer answers
}

// operate carries out an operation.
func (w *writer) operate(o *operation) {
	w.finish()
	b := w.newBatch()
	b.contain(func() {
		if b.open() {
			if err := o.do(b); err != nil {
				b.err = err
			}
		}
	})
	w.commit(b)
	if b.err == nil && o.after != nil {
		w.containMemory(o.after)
	}
	o.done <- b.err
}

// Moderate adds rows to the moderation log, and returns those that were new. When it returns,
// the rows are durable, and no event that they bar is stored any more. Events that were stored
// before are for TakeDown.
func (p *Pipeline) Moderate(ctx context.Context, list []moderation.Row) (added []moderation.Row, err error) {
	o := &operation{}
	var w *writer
	o.do = func(b *batch) (err error) {
		w = b.w
		added, err = b.tx.AddModeration(list, p.cfg.Now().Unix())
		return err
	}
	o.after = func() { w.applyModeration(added) }
	if err := p.perform(ctx, o); err != nil {
		return nil, fmt.Errorf("add to the moderation log: %w", err)
	}
	return added, nil
}

// TakeDown hides, purges or shows events in one commit. Callers split long lists. It does
// not show an event that the log bars by then: another node may have added a row.
func (p *Pipeline) TakeDown(ctx context.Context, t host.Takedown) (out host.TakedownOutcome, err error) {
	var w *writer
	o := &operation{do: func(b *batch) (err error) {
		now := p.cfg.Now().Unix()
		t.Barred = func(e *host.Event) bool { return p.cfg.Moderation.Event(e, now) != nil }
		if out, err = b.tx.TakeDown(t, now); err != nil {
			return err
		}
		b.changed(out.Removed)
		b.changedHeld(out.Held)
		for _, e := range out.Published {
			b.bytes += len(e.Event.JSON)
			b.stored(e.Event, e.Seq)
		}
		w = b.w
		return nil
	}}
	o.after = func() {
		if f, ok := w.here.(TakedownFollower); ok && len(out.Removed) > 0 {
			f.TakenDown(out.Removed)
		}
	}
	if err := p.perform(ctx, o); err != nil {
		return host.TakedownOutcome{}, fmt.Errorf("take events down: %w", err)
	}
	if a := p.cfg.Audiences; a != nil && len(out.Published) > 0 {
		a.Unsettle()
	}
	return out, nil
}

// applyModeration lets new rows of the log count: decisions that were made before are made
// again.
func (w *writer) applyModeration(list []moderation.Row) {
	if len(list) == 0 {
		return
	}
	w.cfg.Moderation.Apply(list)
	w.history.switchRules()
	w.version.Store(w.history.version)
}

// learnModeration applies rows that another process has added.
func (w *writer) learnModeration(lines [][]byte) {
	var list []moderation.Row
	for _, line := range lines {
		r, err := moderation.ParseLine(line)
		if err != nil {
			w.cfg.Log.Error("read a row of the moderation log", "err", err)
			continue
		}
		list = append(list, r)
	}
	w.applyModeration(list)
}
