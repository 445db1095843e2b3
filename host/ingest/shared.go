package ingest

import (
	"context"

	"talon/host"
)

// sharing is what the writer knows of a store that other processes write too.
type sharing struct {
	store   Shared          // nil if they do not
	changed <-chan struct{} // nil likewise
	current bool            // what others had committed when the turns began is known
	behind  bool            // it could not be read
}

func (w *writer) share() {
	if w.shared.store, _ = w.cfg.Store.(Shared); w.shared.store != nil {
		w.shared.changed = w.shared.store.Changed()
	}
}

// begin opens a transaction, after what others have committed.
func (w *writer) begin() (Tx, error) {
	if w.shared.store == nil {
		return w.cfg.Store.Begin()
	}
	return w.shared.store.BeginShared(w.learn, func(limit int) []*host.Event { return w.schedule.upcoming(w.turns, limit) })
}

// catchUp reads what others have committed. While a transaction is open they commit
// nothing.
func (w *writer) catchUp() {
	if w.batch != nil && w.batch.tx != nil {
		return
	}
	w.finish() // what took effect before
	if err := w.shared.store.CatchUp(w.learn); err != nil {
		w.shared.behind = true
		w.cfg.Log.Warn("read what others have committed", "err", err)
		return
	}
	w.shared.behind = false
}

// current makes sure that a decision can be held against all that is committed, and nothing
// is committed after that before one that is to be written is. It reports whether that
// could be done; otherwise the entry has the error.
func (w *writer) current(e *entry) bool {
	store := w.shared.store
	if store == nil || w.batch != nil && w.batch.tx != nil || e.err != nil {
		return true
	}
	var err error
	switch {
	case e.writes(store):
		w.finish() // what took effect before
		b := w.newBatch()
		if b.tx, err = w.begin(); err == nil {
			w.batch = b
		}
	case !w.shared.current && len(e.facts.stored)+len(e.facts.held) > 0:
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

// tellOthers does something in the transaction of a shared store.
func (b *batch) tellOthers(tell func(SharedTx)) {
	if tx, ok := b.tx.(SharedTx); ok {
		tell(tx)
	}
}

// learn lets what others have committed count as what was committed here.
func (w *writer) learn(c host.Commit) {
	h := &w.history
	if c.Gap {
		h.forget()
		w.recent.clear()
		if err := w.quotas.reload(context.Background(), w.cfg.EachHeld); err != nil {
			w.cfg.Log.Error("count what is held", "err", err)
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
		h.begin()
	}
	w.quotas.committed(c.Held, nil)
	// Who decides from here on does so before a decision can be of this version.
	w.publishElsewhere(c)
	if c.Plugins != 0 {
		h.switchPlugins()
	}
	w.version.Store(h.version)
}

func (w *writer) publishElsewhere(c host.Commit) {
	if w.elsewhere != nil {
		w.elsewhere.Elsewhere(c)
		return
	}
	if w.publisher != nil && len(c.Published) > 0 {
		w.publisher.Publish(c.Published)
	}
	if w.follower != nil && len(c.Removed)+len(c.Held) > 0 {
		w.follower.Follow(c.Removed, c.Held)
	}
}
