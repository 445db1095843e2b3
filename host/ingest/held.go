package ingest

import (
	"context"
	"net/netip"

	"talon/host"
	"talon/host/maintainers"
	rules "talon/sdk/grasp"
)

// holdOptions says how an item goes into purgatory.
func holdOptions(ctx context.Context, it *host.Item, reason string, facts host.RepoFacts) (*host.HoldOptions, error) {
	if reason == "" {
		reason = host.ReasonHeld
	}
	restart, err := extendsDeadline(ctx, it.Event, facts)
	if err != nil {
		return nil, err
	}
	return &host.HoldOptions{Reason: reason, Synced: it.Source.Origin == host.FromSync, ExtendDeadline: restart}, nil
}

// extendsDeadline returns the held announcements whose time a state starts again: those in
// whose recursive maintainer set its author is.
func extendsDeadline(ctx context.Context, e *host.Event, facts host.RepoFacts) (list []host.Address, err error) {
	if e.Kind != rules.KindState {
		return nil, nil
	}
	owners, err := maintainers.Owners(ctx, facts, e.D(), e.PubKey)
	for _, owner := range owners {
		if owner.Held {
			list = append(list, host.Address{Kind: host.KindAnnouncement, PubKey: owner.PubKey, D: e.D()})
		}
	}
	return list, err
}

// releaseRequest is a release request on its way.
type releaseRequest struct {
	*host.ReleaseRequest
	release  host.Release    // as planned
	released []host.Released // in the batch
}

// plan fills in what a release request releases.
func (p *Pipeline) plan(ctx context.Context, e *entry, now int64) {
	r := p.recorder(e)
	e.release.release, e.err = e.release.Plan(ctx, &r, now)
	e.facts = r.notes
}

func (b *batch) hold(e *entry) {
	a := answer{entry: e, written: true}
	if b.open() {
		var out host.Outcome
		if out, b.err = b.tx.Hold(e.item.Event, *e.hold, b.w.cfg.Now().Unix()); b.err == nil {
			a.verdict = host.Verdict{Code: out.Code, Reason: out.Reason}
			b.changedHeld(out.Held)
			if network := networkOf(e.item.Source); network.IsValid() {
				if b.networks == nil {
					b.networks = make(map[host.ID]netip.Prefix)
				}
				b.networks[e.item.Event.ID] = network
			}
		}
	}
	b.answers = append(b.answers, a)
}

func (b *batch) release(e *entry) {
	r := e.release
	r.released = nil
	b.w.history.begin()
	b.tellOthers(SharedTx.Arrive)
	if len(r.release.IDs)+len(r.release.ExtendDeadline) > 0 && b.open() {
		var out host.ReleaseOutcome
		if out, b.err = b.tx.Release(r.release, b.w.cfg.Now().Unix()); b.err == nil {
			r.released = out.Events
			for _, r := range out.Events {
				if r.Status == host.StatusReleased {
					b.bytes += len(r.Event.JSON)
					b.stored(r.Event, r.Seq)
				}
			}
			// Among them may be what another of these events replaced.
			b.changed(out.Removed)
			b.changedHeld(out.Held)
		}
	}
	b.answers = append(b.answers, answer{entry: e, written: true})
}

// changedHeld notes what happened in purgatory.
func (b *batch) changedHeld(changes []host.HeldChange) {
	b.held = append(b.held, changes...)
	for i := range changes {
		if c, ok := changeOf(&changes[i]); ok {
			b.w.history.add(c)
		}
	}
}

// changeOf is what happened in purgatory as the history has it. Going dormant and back
// changes no fact.
func changeOf(c *host.HeldChange) (change, bool) {
	return change{event: c.Event, held: true, removed: c.Status != host.StatusHeld}, c.Status != host.StatusDormant && c.Status != host.StatusRevived
}

func (b *batch) answerRelease(a answer) {
	released := a.entry.release.released
	if a.err != nil {
		released = nil
		b.w.cfg.Log.Error("release events", "err", a.err)
	}
	b.w.metrics.released(released, a.err)
	a.entry.release.Done(released, a.err)
}

// sweepHeld lets time pass in purgatory. What is too much for one commit waits for
// the next tick: whoever filled purgatory in a moment would else stop the writer for
// seconds, half an hour later. Nothing is wrong with an event that goes late.
func (w *writer) sweepHeld(now int64) {
	if at, ok := w.cfg.Store.NextHeld(); !ok || at > now {
		return
	}
	b := w.newBatch()
	if b.open() {
		var changes []host.HeldChange
		changes, b.err = b.tx.SweepHeld(now, sweepBatch)
		b.changedHeld(changes)
	}
	if b.err == nil {
		b.finish()
	}
	if b.err != nil {
		b.rollback()
		w.failures++
		w.cfg.Log.Error("sweep purgatory", "err", b.err)
	}
}
