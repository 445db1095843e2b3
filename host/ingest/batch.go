package ingest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"talon/host"
	"talon/host/purgatory"
)

// batch is one commit in the making, and the answers that wait for it.
type batch struct {
	w      *writer
	opened time.Time
	tx     SharedTx // nil until something is to be written
	err    error    // the commit cannot be made, or was not

	panicked bool // the writer's own code has; err says so too

	bytes     int
	answers   []answer
	published []host.Published
	removed   []*host.Event
	held      []host.HeldChange
	networks  map[host.ID]netip.Prefix // that sent what was held
	brought   []*host.Item             // first copies of events from clients
	vanished  bool                     // somebody asked to vanish

	used map[host.UsageKey]host.Usage // of authors near their limits, with what the batch has written
}

type answer struct {
	entry   *entry
	verdict host.Verdict
	err     error
	written bool
	end     bool // the connection of the client is to end
}

func (w *writer) newBatch() *batch {
	return &batch{w: w, opened: time.Now()}
}

// open begins the transaction if it is not open yet.
func (b *batch) open() bool {
	if b.tx == nil && b.err == nil {
		b.err = b.begin()
	}
	return b.err == nil
}

// apply carries out the entry's decision within the batch. If that panics, the batch cannot be
// committed: see [writer.fail].
func (b *batch) apply(e *entry) {
	n := len(b.answers)
	if b.contain(func() { b.carryOut(e) }) {
		b.answers = append(b.answers[:n], answer{entry: e, written: true})
		return
	}
	b.answers[len(b.answers)-1].end = e.end
}

// contain runs f, after which the batch cannot be committed if f panics. It reports whether f did.
func (b *batch) contain(f func()) (panicked bool) {
	err := b.w.writing.Run(func() error {
		f()
		return nil
	})
	if err != nil {
		b.err, b.panicked = err, true
	}
	return err != nil
}

// carryOut is apply without a guard.
func (b *batch) carryOut(e *entry) {
	if e.err != nil {
		b.answers = append(b.answers, answer{entry: e, err: e.err})
		return
	}
	if e.release != nil {
		b.release(e)
		return
	}
	event := e.accepted()
	b.bytes += len(event.JSON)
	switch {
	case e.vanish != nil:
		b.noteVanished(e)
	case e.verdict != nil && e.item.Woken && isFinal(e.verdict):
		b.refuseWoken(e)
	case e.verdict != nil:
		b.answers = append(b.answers, answer{entry: e, verdict: *e.verdict})
	case e.hold == nil && event.Kind.Class() == host.Ephemeral:
		if b.tx != nil {
			b.tx.Publish(event)
		}
		b.published = append(b.published, host.Published{Event: event})
		b.answers = append(b.answers, answer{entry: e, verdict: host.Verdict{Code: host.Relayed}})
	default:
		b.write(e)
	}
}

// refuse answers an entry without a decision. It reads nothing that a worker writes.
func (b *batch) refuse(e *entry) {
	a := answer{entry: e, verdict: tooFast}
	if e.release != nil {
		a.err = errors.New(tooFast.Reason)
	} else {
		b.w.metrics.contended.Inc()
	}
	b.answers = append(b.answers, a)
}

// write stores an event, or puts it into purgatory.
func (b *batch) write(e *entry) {
	a := answer{entry: e, written: true}
	if over := b.overQuota(e); over != nil {
		b.answers = append(b.answers, answer{entry: e, verdict: *over})
		return
	}
	if b.open() {
		event, now := e.accepted(), b.w.cfg.Now().Unix()
		var out host.Outcome
		if e.hold != nil {
			h := *e.hold
			h.Network, h.Known = purgatory.NetworkOf(e.item.Source), b.w.cfg.knows(e.item)
			out, b.err = b.tx.Hold(event, h, now)
		} else {
			out, b.err = b.tx.Put(event, now)
		}
		if b.err == nil {
			a.verdict = host.Verdict{Code: out.Code, Reason: withNote(out, e.note)}
			b.changed(out.Removed)
			b.changedHeld(out.Held)
			b.use(event, &out)
			if out.Code == host.Stored {
				b.stored(event, out.Seq)
			}
			b.storedHeld(out.Released)
			if e.item.Source.Origin == host.FromClient && isFirst(event, &out) {
				b.brought = append(b.brought, e.item)
			}
			if network := networkOf(e.item.Source); e.hold != nil && network.IsValid() {
				if b.networks == nil {
					b.networks = make(map[host.ID]netip.Prefix)
				}
				b.networks[event.ID] = network
			}
		}
	}
	b.answers = append(b.answers, a)
}

// isFinal reports whether a verdict about a held event that was submitted again ends its time: it is
// refused, and not only for now.
func isFinal(v *host.Verdict) bool {
	return v.Code == host.ShadowRejected || v.Code == host.Rejected && !v.ForNow()
}

// refuseWoken takes an event out of purgatory that waited for another one, and is refused now.
func (b *batch) refuseWoken(e *entry) {
	a := answer{entry: e, verdict: *e.verdict, written: true}
	if b.open() {
		var out host.ReleaseOutcome
		if out, b.err = b.tx.Release(host.Release{Refused: []host.ID{e.item.Event.ID}}, b.w.cfg.Now().Unix()); b.err == nil {
			b.changedHeld(out.Held)
		}
	}
	b.answers = append(b.answers, a)
}

// isFirst reports whether an outcome is that of the first accepted copy of an event.
func isFirst(e *host.Event, out *host.Outcome) bool {
	return out.Code == host.Stored || out.Code == host.Held && slices.ContainsFunc(out.Held, func(c host.HeldChange) bool {
		return c.Status == host.StatusHeld && c.Event.ID == e.ID
	})
}

// withNote returns the reason of an outcome with the note about an event that was taken.
func withNote(out host.Outcome, note string) string {
	switch {
	case note == "":
	case out.Code == host.Stored:
		return "note: " + note
	case out.Code == host.Held:
		return out.Reason + "; " + note
	}
	return out.Reason
}

// storedHeld notes held events that are stored now.
func (b *batch) storedHeld(list []host.Released) {
	for _, r := range list {
		if r.Status == host.StatusReleased {
			b.bytes += len(r.Event.JSON)
			b.stored(r.Event, r.Seq)
		}
	}
}

func (b *batch) stored(e *host.Event, seq int64) {
	b.w.history.add(change{event: e})
	b.published = append(b.published, host.Published{Event: e, Seq: seq})
}

func (b *batch) changed(removed []*host.Event) {
	b.removed = append(b.removed, removed...)
	for _, e := range removed {
		b.w.history.add(change{event: e, removed: true})
	}
}

// finish commits and publishes. If the commit fails it only sets b.err: no sender
// has an answer yet, and the items may be submitted again.
//
// A crash before the commit loses only items without an answer; a crash after it
// leaves events stored whose senders will send them again.
func (b *batch) finish() {
	writes := b.tx != nil
	if writes {
		if b.contain(func() { b.err = b.tx.Commit() }) {
			return // rollback ends the transaction, if it is open
		}
		b.tx = nil
		if b.err != nil {
			b.w.history.rollback()
			return
		}
	}
	// The commit holds. A panic from here on takes nothing back, and nobody gets an error.
	w := b.w
	w.containMemory(func() {
		if writes {
			b.note()
		}
		// From here on the events can be read, so from here on decisions that were made
		// before are measured against this commit.
		w.history.commit()
		w.version.Store(w.history.version)
	})
	if b.vanished {
		w.vanished.notify()
	}
	if users := w.cfg.Users; users != nil {
		w.notify(func() {
			for _, it := range b.brought {
				users.Brought(it.Event, it.Source.Addr, slices.Contains(it.Authed, it.Event.PubKey))
			}
		})
	}
	if w.here == nil {
		return
	}
	if len(b.published) > 0 {
		w.notify(func() { w.here.Publish(b.published) })
	}
	if len(b.removed)+len(b.held) > 0 {
		w.notify(func() { w.here.Follow(b.removed, b.held) })
	}
}

// note remembers what a commit has changed.
func (b *batch) note() {
	if a := b.w.cfg.Audiences; a != nil {
		a.Committed(b.published, b.held)
	}
	for _, pub := range b.published {
		if pub.Seq != 0 {
			b.w.recent.add(pub.Event.ID)
		}
	}
	// Among them may be what was stored by this very commit.
	for _, e := range b.removed {
		b.w.recent.remove(e.ID)
	}
	b.w.metrics.changed(b.held)
	b.w.quotas.committed(b.held, b.networks)
}

// written returns the share of the items that the batch writes.
func (b *batch) written() float64 {
	n := 0
	for i := range b.answers {
		if b.answers[i].written {
			n++
		}
	}
	return float64(n) / float64(max(len(b.answers), 1))
}

// answer calls Done of every item with its outcome. After a failure, items of
// the transaction get the error.
func (b *batch) answer() {
	if len(b.answers) > 0 {
		b.w.metrics.batch.Observe(float64(len(b.answers)))
	}
	for _, a := range b.answers {
		if a.written && b.err != nil {
			a.verdict, a.err = host.Verdict{}, b.err
		}
		b.w.answer(a)
	}
}

// answer calls Done of an item or a release request, once. A Done that panics has been called.
func (w *writer) answer(a answer) {
	if a.entry.answered {
		return
	}
	a.entry.answered = true
	w.notify(func() {
		if a.entry.release != nil {
			w.answerRelease(a)
			return
		}
		w.metrics.answered(a)
		w.logFailure(a)
		a.verdict.End = a.end
		if w.cfg.Refused != nil && a.entry.allowed && a.err == nil && a.verdict.Code == host.Rejected {
			w.cfg.Refused(a.entry.item.Event.ID, a.verdict.Reason)
		}
		a.entry.item.Done(a.verdict, a.err)
	})
}

// logFailure logs an event that could not be stored. While the database is away that is every
// event, so a wave of them is one line. A full disk has a line of its own.
func (w *writer) logFailure(a answer) {
	if a.err == nil || errors.Is(a.err, host.ErrFull) {
		return
	}
	if n := w.unstored.Count(w.cfg.Now()); n > 0 {
		e := a.entry.item.Event
		w.cfg.Log.Error("store event", "event", e.ID, "kind", e.Kind, "err", a.err, "events", n)
	}
}

// rollback rolls back after a failure.
func (b *batch) rollback() {
	if b.tx == nil {
		return
	}
	b.w.history.rollback()
	if err := b.w.writing.Run(b.tx.Rollback); err != nil {
		b.err = fmt.Errorf("%w (and roll back: %w)", b.err, err)
	}
	b.tx = nil
}

// releaseRequest is a release request on its way.
type releaseRequest struct {
	*host.ReleaseRequest
	release  host.Release    // as planned
	released []host.Released // in the batch
}

func (b *batch) release(e *entry) {
	r := e.release
	r.released = nil
	b.w.history.noteGitData()
	if b.tx != nil {
		b.tx.NotifyGitData()
	}
	if len(r.release.IDs)+len(r.release.ExtendDeadline) > 0 && b.open() {
		var out host.ReleaseOutcome
		if out, b.err = b.tx.Release(r.release, b.w.cfg.Now().Unix()); b.err == nil {
			r.released = out.Events
			b.storedHeld(out.Events)
			b.used = nil // read it again
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
	return change{event: c.Event, held: true, removed: c.Status != host.StatusHeld, awaits: c.Awaits}, c.Status != host.StatusDormant && c.Status != host.StatusRevived
}

func (w *writer) answerRelease(a answer) {
	released := a.entry.release.released
	if a.err != nil {
		released = nil
		w.cfg.Log.Error("release events", "err", a.err)
	}
	w.metrics.released(released, a.err)
	a.entry.release.Done(released, a.err)
}

// sweepHeld lets time pass in purgatory. One commit has a bound, and the rest waits for
// the next tick. Without it, a client that fills purgatory in a moment would stop the writer for
// seconds, half an hour later. An event may go late.
func (w *writer) sweepHeld(now int64) {
	if at, ok := w.cfg.Store.NextHeld(); !ok || at > now {
		return
	}
	b := w.newBatch()
	b.contain(func() {
		if b.open() {
			var changes []host.HeldChange
			changes, b.err = b.tx.SweepHeld(now, sweepBatch)
			b.changedHeld(changes)
		}
	})
	w.commit(b)
	if b.err != nil {
		w.cfg.Log.Error("sweep purgatory", "err", b.err)
	}
}
