package ingest

import (
	"context"
	"net/netip"

	"talon/host"
	"talon/host/maintainers"
	rules "talon/sdk/grasp"
)

// holding says how an item goes into purgatory.
func holding(ctx context.Context, it *host.Item, reason string, facts host.RepoFacts) (*host.Holding, error) {
	if reason == "" {
		reason = host.ReasonHeld
	}
	restart, err := restarts(ctx, it.Event, facts)
	if err != nil {
		return nil, err
	}
	return &host.Holding{Reason: reason, Synced: it.Source.Origin == host.FromSync, Restart: restart}, nil
}

// restarts returns the held announcements whose time a state starts again: those in
// whose recursive maintainer set its author is.
func restarts(ctx context.Context, e *host.Event, facts host.RepoFacts) (list []host.Address, err error) {
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

// arrival is an arrival on its way.
type arrival struct {
	*host.Arrival
	release  host.Release    // as planned
	released []host.Released // in the batch
}

// plan fills in what an arrival releases.
func (p *Pipeline) plan(ctx context.Context, e *entry, now int64) {
	r := p.recorder(e)
	e.arrival.release, e.err = e.arrival.Plan(ctx, &r, now)
	e.facts = r.notes
}

func (b *batch) hold(e *entry) {
	a := answer{entry: e, written: true}
	if b.open() {
		var out host.Outcome
		if out, b.err = b.tx.Hold(e.item.Event, *e.holding, b.w.cfg.Now().Unix()); b.err == nil {
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
	r := e.arrival
	r.released = nil
	b.w.history.arrive()
	if len(r.release.IDs)+len(r.release.Restart) > 0 && b.open() {
		var out host.ReleaseOutcome
		if out, b.err = b.tx.Release(r.release, b.w.cfg.Now().Unix()); b.err == nil {
			r.released = out.Events
			for _, r := range out.Events {
				if r.Fate == host.FateReleased {
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

// changedHeld notes what happened in purgatory. Going dormant and back changes no
// fact.
func (b *batch) changedHeld(changes []host.HeldChange) {
	b.held = append(b.held, changes...)
	for _, c := range changes {
		if c.Fate != host.FateDormant && c.Fate != host.FateRevived {
			b.w.history.add(change{event: c.Event, held: true, removed: c.Fate != host.FateHeld})
		}
	}
}

func (b *batch) answerArrival(a answer) {
	released := a.entry.arrival.released
	if a.err != nil {
		released = nil
		b.w.cfg.Log.Error("release events", "err", a.err)
	}
	b.w.metrics.arrived(released, a.err)
	a.entry.arrival.Done(released, a.err)
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
		b.abandon()
		w.failures++
		w.cfg.Log.Error("sweep purgatory", "err", b.err)
	}
}
