package ingest

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"talon/host"
)

// batch is one commit in the making, and the answers that wait for it.
type batch struct {
	w      *writer
	opened time.Time
	tx     Tx    // nil until something is to be written
	err    error // the commit cannot be made, or was not

	bytes     int
	answers   []answer
	published []host.Published
	removed   []*host.Event
	held      []host.HeldChange
	networks  map[host.ID]netip.Prefix // that sent what was held
}

type answer struct {
	entry   *entry
	verdict host.Verdict
	err     error
	written bool
}

func (w *writer) newBatch() *batch {
	return &batch{w: w, opened: time.Now()}
}

// open begins the transaction if it is not open yet.
func (b *batch) open() bool {
	if b.tx == nil && b.err == nil {
		b.tx, b.err = b.w.begin()
	}
	return b.err == nil
}

// apply carries out the entry's decision within the batch.
func (b *batch) apply(e *entry) {
	if e.err != nil {
		b.answers = append(b.answers, answer{entry: e, err: e.err})
		return
	}
	if e.release != nil {
		b.release(e)
		return
	}
	event := e.item.Event
	b.bytes += len(event.JSON)
	switch {
	case e.verdict != nil:
		b.answers = append(b.answers, answer{entry: e, verdict: *e.verdict})
	case e.hold != nil:
		b.hold(e)
	case event.Kind.Class() == host.Ephemeral:
		b.tellOthers(func(tx SharedTx) { tx.Publish(event) })
		b.published = append(b.published, host.Published{Event: event})
		b.answers = append(b.answers, answer{entry: e, verdict: host.Verdict{Code: host.Relayed}})
	default:
		b.put(e)
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

func (b *batch) put(e *entry) {
	a := answer{entry: e, written: true}
	if b.open() {
		var out host.Outcome
		if out, b.err = b.tx.Put(e.item.Event, b.w.cfg.Now().Unix()); b.err == nil {
			a.verdict = host.Verdict{Code: out.Code, Reason: out.Reason}
			b.changed(out.Removed)
			b.changedHeld(out.Held)
			if out.Code == host.Stored {
				b.stored(e.item.Event, out.Seq)
			}
		}
	}
	b.answers = append(b.answers, a)
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

func (b *batch) sweep(now int64) int {
	if !b.open() {
		return 0
	}
	var removed []*host.Event
	removed, b.err = b.tx.Sweep(now, sweepBatch)
	b.changed(removed)
	return len(removed)
}

// finish commits and publishes. If the commit fails it only sets b.err: no sender
// has an answer yet, and the items may be submitted again.
//
// A crash before the commit loses only items without an answer; a crash after it
// leaves events stored whose senders will send them again.
func (b *batch) finish() {
	if b.tx != nil {
		b.err = b.tx.Commit()
		b.tx = nil
		if b.err != nil {
			b.w.history.rollback()
			return
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
	// From here on the events can be read, so from here on decisions that were made
	// before are measured against this commit.
	b.w.history.commit()
	b.w.version.Store(b.w.history.version)
	if b.w.publisher != nil && len(b.published) > 0 {
		b.w.publisher.Publish(b.published)
	}
	if b.w.follower != nil && len(b.removed)+len(b.held) > 0 {
		b.w.follower.Follow(b.removed, b.held)
	}
}

// written returns the share of the items that were to be written.
func (b *batch) written() float64 {
	n := 0
	for i := range b.answers {
		if b.answers[i].written {
			n++
		}
	}
	return float64(n) / float64(max(len(b.answers), 1))
}

// answer calls Done of every item with its outcome. After a failure, items that
// were to be written get the error.
func (b *batch) answer() {
	if len(b.answers) > 0 {
		b.w.metrics.batch.Observe(float64(len(b.answers)))
	}
	for _, a := range b.answers {
		if a.written && b.err != nil {
			a.verdict, a.err = host.Verdict{}, b.err
		}
		if a.entry.release != nil {
			b.answerRelease(a)
			continue
		}
		b.w.metrics.answered(a)
		if a.err != nil {
			b.w.cfg.Log.Error("store event", "event", a.entry.item.Event.ID, "kind", a.entry.item.Event.Kind, "err", a.err)
		}
		a.entry.item.Done(a.verdict, a.err)
	}
}

// rollback rolls back after a failure.
func (b *batch) rollback() {
	if b.tx == nil {
		return
	}
	b.w.history.rollback()
	if err := b.tx.Rollback(); err != nil {
		b.err = fmt.Errorf("%w (and roll back: %w)", b.err, err)
	}
	b.tx = nil
}
