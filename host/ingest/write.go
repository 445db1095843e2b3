package ingest

import (
	"context"
	"time"

	"talon/host"
	"talon/internal/wave"
)

const (
	// batchBytes bounds the text of one commit.
	batchBytes = 8 << 20

	// maxOpen bounds how long a batch stays open for events that are being decided.
	maxOpen = 5 * time.Millisecond

	// batchTime bounds how long events take effect before the batch is committed, unless
	// a commit itself takes long: then it is twice the time of a commit.
	batchTime = 20 * time.Millisecond

	// turnTime is how long events take effect before the writer looks who has used least.
	turnTime = 5 * time.Millisecond

	// maxFailTime bounds how long the writer waits for decisions about the items of a batch
	// that failed.
	maxFailTime = 100 * time.Millisecond

	sweepEvery = time.Second
	sweepBatch = 500 // expired events removed in one commit
)

// writer decides the order of effects and makes the commits. One goroutine owns
// it.
type writer struct {
	*Pipeline
	here    Follower // of what is committed here; may be nil
	shared  sharing
	history history
	contention

	uncounted bool // the quotas do not agree with the store; they are to be counted again

	ready      []*entry      // decided and first in their lanes
	behind     []*entry      // a buffer of takeTurns
	batch      *batch        // that is open; nil if none is
	failures   uint64        // batches that could not be committed
	unstored   wave.Wave     // events that could not be stored
	commitTime time.Duration // moving average
	written    float64       // moving average: the share of events that needed a commit
	tick       <-chan time.Time
}

// write gives the lanes turns, and returns when all that was submitted has taken
// effect and nothing more comes. An error means that it cannot go on.
func (w *writer) write() error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	w.tick = tick.C
	for {
		if done, err := w.schedule.drained(); done || err != nil {
			w.finish()
			return err
		}
		w.takeTurns()
		w.decideContended()
		wait, commit := w.pause()
		if commit {
			w.finish()
			continue
		}
		var timer *time.Timer
		var elapsed <-chan time.Time
		if wait > 0 {
			timer = time.NewTimer(wait)
			elapsed = timer.C
		}
		select {
		case <-w.schedule.wake:
		case <-elapsed:
		case <-w.tick:
			w.second()
		case <-w.shared.changed:
			w.catchUp()
		case o := <-w.operations:
			w.operate(o)
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// pause returns how long the writer may wait for entries, 0 for any time, or that it must commit
// the batch now.
func (w *writer) pause() (wait time.Duration, commit bool) {
	if len(w.ready) > 0 {
		return 0, true // an exclusive turn has left one
	}
	if w.batch != nil {
		wait = w.openTime() - time.Since(w.batch.opened)
		if wait <= 0 {
			return 0, true
		}
	}
	if slow := w.untilSlow(); slow > 0 && (wait == 0 || slow < wait) {
		wait = slow
	}
	return wait, false
}

// openTime returns how long the open batch stays open. A commit for each of the events that
// are about to be decided would be most of the work: so it waits for them for as long as
// a commit takes. For those whose turn has not come it does so only while most are
// written, and not long; and not while others wait for the end of the transaction.
func (w *writer) openTime() time.Duration {
	switch {
	case w.underway() > 0:
		return w.commitTime
	case w.batch.tx != nil && w.written > 0.5 && w.shared.alone && w.schedule.busy():
		return min(w.commitTime, maxOpen)
	}
	return 0
}

// takeTurns applies what is decided, an entry of each lane in turn. The lanes that have used
// least come first, as in the schedule: what it takes to store an event counts against the
// lane as its decision does.
func (w *writer) takeTurns() {
	for {
		select {
		case <-w.tick:
			w.second()
		case <-w.shared.changed:
			w.catchUp()
		case o := <-w.operations:
			w.operate(o)
		default:
		}
		w.shared.current = false
		w.ready = w.schedule.appendReady(w.ready)
		if len(w.ready) == 0 {
			return
		}
		w.schedule.order(w.ready)
		behind := w.behind[:0]
		taken := 0
		for began := time.Now(); taken < len(w.ready) && time.Since(began) < turnTime; taken++ {
			if next := w.applyNext(w.ready[taken]); next != nil {
				behind = append(behind, next)
			}
		}
		n := copy(w.ready, w.ready[taken:])
		clear(w.ready[n:])
		w.ready = append(w.ready[:n], behind...)
		clear(behind)
		w.behind = behind
	}
}

// applyNext lets an entry take effect, if its decision still holds. It returns the next
// entry of the lane if that is decided.
func (w *writer) applyNext(e *entry) *entry {
	began := time.Now()
	stale := !e.deferred && w.staleOrFail(e)
	w.recordOutcome(e, stale)
	if (stale || e.deferred) && !w.requeue(e, stale) {
		return nil
	}
	w.apply(e)
	return w.schedule.pop(e, time.Since(began))
}

// staleOrFail is stale. If that panics, the entry is answered with the error.
func (w *writer) staleOrFail(e *entry) (stale bool) {
	err := w.writing.Run(func() error {
		stale = w.stale(e)
		return nil
	})
	if err != nil {
		e.verdict, e.hold, e.err = nil, nil, err
		return false
	}
	return stale
}

// stale reports whether a decision does not hold any more.
func (w *writer) stale(e *entry) bool {
	switch {
	case !w.current(e):
		return false // it is answered with the error
	case e.version < w.history.switched, w.audienceChanged(e):
		return true
	case len(e.open) > 0 && e.failures != w.failures:
		return true // it saw what was never committed
	case e.hold != nil && e.version < w.history.begun:
		return true // what it is to wait for may be here
	}
	return w.history.stale(&e.reads, e.version)
}

// apply carries out a decision in the open batch, and commits that if it is full.
func (w *writer) apply(e *entry) {
	if w.batch == nil {
		w.batch = w.newBatch()
	}
	b := w.batch
	b.apply(e)
	switch {
	case b.err != nil:
		w.batch = nil
		w.fail(b)
	case len(b.answers) >= w.cfg.Batch || b.bytes >= batchBytes || time.Since(b.opened) >= max(batchTime, 2*w.commitTime):
		w.finish()
	}
}

// finish commits the open batch, if there is one, and answers.
func (w *writer) finish() {
	b := w.batch
	if b == nil {
		return
	}
	w.batch = nil
	began, writes := time.Now(), b.tx != nil
	if b.finish(); b.err != nil {
		w.fail(b)
		return
	}
	n := float64(len(b.answers))
	w.written += (b.written() - w.written) * n / (n + 16)
	if writes {
		w.commitTime += (time.Since(began) - w.commitTime) / 8
	}
	b.answer()
}

// commit commits a batch, or rolls it back if that cannot be.
func (w *writer) commit(b *batch) {
	if b.err == nil {
		b.finish()
	}
	if b.err != nil {
		w.undo(b)
	}
}

// undo rolls a batch back. REQUIRES: no other is open.
func (w *writer) undo(b *batch) {
	b.rollback()
	w.failures++
	if b.panicked {
		w.rebuild()
	}
}

// fail ends a batch that cannot be committed. If it holds several items, each gets a
// batch of its own: one of them may be what the store cannot take, or what makes the host
// panic, and the others must not suffer for it.
func (w *writer) fail(b *batch) {
	w.undo(b)
	if len(b.answers) == 1 {
		b.answer()
		return
	}
	over, cancel := context.WithTimeout(context.Background(), maxFailTime)
	defer cancel()
	for _, a := range b.answers {
		holds := w.decideOfFailed(a.entry, over)
		alone := w.batch // a transaction may be open
		if w.batch = nil; alone == nil {
			alone = w.newBatch()
		}
		if holds {
			alone.apply(a.entry)
		} else {
			alone.refuse(a.entry)
		}
		w.commit(alone)
		alone.answer()
	}
}

// decideOfFailed has an item of a failed batch decided again if its decision does not hold
// any more. It reports false if none does in time: a worker may still be at the entry, which
// then only has its item.
func (w *writer) decideOfFailed(e *entry, over context.Context) bool {
	w.shared.current = false
	for tries := 0; w.staleOrFail(e); tries++ {
		if tries == maxRetries || over.Err() != nil {
			return false
		}
		select {
		case <-w.decideAgain(e):
		case <-over.Done():
			return false
		}
	}
	return true
}

// second does what is due each second.
func (w *writer) second() {
	w.finish()
	if w.shared.behind {
		w.catchUp()
	}
	if w.uncounted {
		w.recount()
	}
	now := w.cfg.Now().Unix()
	w.sweepStored(now)
	w.sweepHeld(now)
	w.schedule.evictIdle()
}

// sweepStored removes stored events that have expired (NIP-40).
func (w *writer) sweepStored(now int64) {
	for {
		at, ok := w.cfg.Store.NextExpiry()
		if !ok || at > now {
			return
		}
		b := w.newBatch()
		b.contain(func() {
			if b.open() {
				var removed []*host.Event
				removed, b.err = b.tx.Sweep(now, sweepBatch)
				b.changed(removed)
			}
		})
		w.commit(b)
		if b.err != nil {
			w.cfg.Log.Error("remove expired events", "err", b.err)
			return
		}
		if len(b.removed) == 0 {
			return
		}
		w.metrics.expired.Add(float64(len(b.removed)))
	}
}
