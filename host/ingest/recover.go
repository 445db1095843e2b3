package ingest

import "context"

// A panic may spoil what the writer remembers, which is then made again.
//
// The writer holds three things in memory: the history, the ids of recent events, and the quotas.
// A panic in code that changes them may leave them half changed, so they are made again:
//
//   - The history forgets everything. Decisions that are under way are then made again.
//   - The ids are forgotten. A copy of a recent event costs a signature check.
//   - The quotas are counted again from the store.
//
// A panic in a transaction of the store is the store's to recover from; after Rollback it is as it
// was before Begin. Lanes and heaps of the schedule exist nowhere else, so they cannot be made
// again: a panic there ends the pipeline with an error, and with it the process, in order.

// rebuild makes the history again. REQUIRES: no batch is open.
func (w *writer) rebuild() {
	w.history.rollback()
	w.history.invalidate()
	w.version.Store(w.history.version)
}

// containMemory runs f, which changes what the writer remembers after a commit. If f panics, that is
// made again. REQUIRES: no batch with changes is open, but one that is committed.
func (w *writer) containMemory(f func()) {
	err := w.writing.Run(func() error {
		f()
		return nil
	})
	if err == nil {
		return
	}
	w.history.commit()
	w.rebuild()
	w.recent.clear()
	w.recount()
}

// recount counts again from the store what is held. Until that succeeds it is tried each second.
func (w *writer) recount() {
	err := w.writing.Run(func() error { return w.quotas.reload(context.Background(), w.cfg.EachHeld) })
	if w.uncounted = err != nil; err != nil {
		w.cfg.Log.Error("count what is held", "err", err)
	}
}

// notify runs f, which tells others what has happened. Their panic changes nothing of the writer.
func (w *writer) notify(f func()) {
	_ = w.writing.Run(func() error {
		f()
		return nil
	})
}

// abort answers what is queued with an error, where the pipeline cannot go on.
func (w *writer) abort(err error) {
	if b := w.batch; b != nil {
		w.batch = nil
		b.err = err
		b.rollback()
		b.answer()
	}
	for _, e := range w.schedule.abandon() {
		w.answer(answer{entry: e, err: err})
	}
}
