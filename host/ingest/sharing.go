package ingest

import (
	"talon/host"
)

// sharing is what the writer knows of the other processes that write the store.
type sharing struct {
	store   Shared
	alone   bool // no other process can write the store
	changed <-chan struct{}
	remote  func(host.Commit)
	current bool // what others had committed when the turns began is known
	behind  bool // it could not be read
}

// begin opens the transaction of a batch, after what others have committed.
func (b *batch) begin() error {
	w := b.w
	upcoming := func(limit int) []*host.Event { return w.schedule.upcoming(w.ready, limit) }
	tx, err := w.shared.store.BeginShared(w.learn, upcoming)
	if err == nil {
		b.tx = tx
	}
	return err
}

// catchUp reads what others have committed. While a transaction is open they commit
// nothing.
func (w *writer) catchUp() {
	if w.batch != nil && w.batch.tx != nil {
		return
	}
	w.finish() // what took effect before
	if err := w.writing.Run(func() error { return w.shared.store.CatchUp(w.learn) }); err != nil {
		w.shared.behind = true
		w.cfg.Log.Warn("read what others have committed", "err", err)
		return
	}
	w.shared.behind = false
}

// current checks that a decision holds against all commits, and that no other commit comes before
// the entry is written. It reports whether it could do so. Otherwise the entry has the error.
func (w *writer) current(e *entry) bool {
	store := w.shared.store
	if w.shared.alone || w.batch != nil && w.batch.tx != nil || e.err != nil {
		return true
	}
	var err error
	switch {
	case e.writes(store):
		w.finish() // what took effect before
		b := w.newBatch()
		if err = b.begin(); err == nil {
			w.batch = b
		}
	case !w.shared.current && len(e.reads.Stored)+len(e.reads.Held) > 0:
		w.finish()
		err = store.CatchUp(w.learn)
		w.shared.current = err == nil
	}
	if err != nil {
		e.verdict, e.hold, e.err = nil, nil, err
	}
	return err == nil
}

// writes reports whether what was decided takes a transaction of a shared store.
func (e *entry) writes(store Shared) bool {
	switch {
	case e.release != nil:
		return true // it is sent to the other processes
	case e.verdict != nil:
		return false
	}
	return e.hold != nil || e.item.Event.Kind.Class() != host.Ephemeral || !store.Alone()
}

// learn lets what others have committed count as what was committed here.
func (w *writer) learn(c host.Commit) { w.containMemory(func() { w.noteOthers(c) }) }

// noteOthers is learn without a guard.
func (w *writer) noteOthers(c host.Commit) {
	h := &w.history
	if c.Gap {
		h.invalidate()
		w.recent.clear()
		w.recount()
		if a := w.cfg.Audiences; a != nil {
			a.Missed()
		}
	}
	for i := range c.Published {
		if p := &c.Published[i]; p.Seq != 0 {
			h.note(change{event: p.Event})
			w.recent.add(p.Event.ID)
		}
	}
	for _, e := range c.Removed {
		h.note(change{event: e, removed: true})
		w.recent.remove(e.ID)
	}
	for i := range c.Held {
		if now, ok := changeOf(&c.Held[i]); ok {
			h.note(now)
		}
	}
	if c.Arrived {
		h.noteGitData()
	}
	if len(c.Moderation) > 0 {
		w.learnModeration(c.Moderation)
	}
	w.quotas.committed(c.Held, nil)
	if a := w.cfg.Audiences; a != nil {
		a.Committed(c.Published, c.Held)
	}
	// The others learn of it before a decision can be of this version.
	w.notify(func() { w.shared.remote(c) })
	if c.Plugins != 0 {
		h.switchRules()
	}
	w.version.Store(h.version)
}
