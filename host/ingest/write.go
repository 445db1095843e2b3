package ingest

import "time"

const (
	// batchBytes bounds the text of one commit.
	batchBytes = 8 << 20

	sweepEvery = time.Second
	sweepBatch = 500 // expired events removed in one commit
)

// writer decides the order of effects and makes the commits. One goroutine owns
// it.
type writer struct {
	*Pipeline
	publisher Publisher // may be nil
	follower  Follower  // may be nil
	history   history
}

// write takes items in the order of Submit and returns when the
// queue is closed and empty.
func (w *writer) write() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	var pending []*entry // taken from the queue, not answered yet
	var solo int         // so many of pending get a commit of their own
	for {
		if len(pending) == 0 {
			select {
			case e, ok := <-w.queue:
				if !ok {
					return
				}
				pending = append(pending, e)
			case <-tick.C:
				w.sweep()
				continue
			}
		}
		select {
		case <-tick.C:
			w.sweep()
		default:
		}
		most := w.cfg.Batch
		if solo > 0 {
			solo--
			most = 1
		}
		var failed int
		pending, failed = w.round(pending, most)
		solo = max(solo, failed)
	}
}

// round makes one commit of at most so many items, those that are pending first.
// It returns the items that are still pending. If the commit failed although it
// held several items, these are among them, and failed is their number: one of
// them may be what the store cannot take, and the others must not suffer for it.
func (w *writer) round(pending []*entry, most int) (rest []*entry, failed int) {
	b := w.newBatch()
	n := 0
	for ; n < most && b.bytes < batchBytes && b.err == nil; n++ {
		if n == len(pending) {
			e := w.poll()
			if e == nil {
				break
			}
			pending = append(pending, e)
		}
		e := pending[n]
		e.wait()
		if w.history.stale(&e.facts, e.revision) {
			if b.finish(); b.err != nil {
				break
			}
			b.answer()
			return w.redecide(pending[n:]), 0
		}
		b.apply(e)
	}
	if b.err == nil {
		b.finish()
	}
	if b.err != nil {
		b.abandon()
		if n > 1 {
			return pending, n
		}
	}
	b.answer()
	return pending[n:], 0
}

// poll takes an item from the queue without waiting.
func (p *Pipeline) poll() *entry {
	select {
	case e := <-p.queue:
		return e
	default:
		return nil
	}
}

// wait returns when the entry has been decided.
func (e *entry) wait() {
	if !e.ready {
		<-e.decided
		e.ready = true
	}
}

// redecide hands every pending item whose facts have changed to the workers. The
// items that wait in the queue are looked at as well, so that a burst which rests
// on one event is decided again in one go.
//
// REQUIRES: what came before the first item is committed.
func (w *writer) redecide(pending []*entry) []*entry {
	for len(pending) < w.cfg.Batch {
		e := w.poll()
		if e == nil {
			break
		}
		pending = append(pending, e)
	}
	for _, e := range pending {
		if !e.ready {
			select {
			case <-e.decided:
				e.ready = true
			default:
				continue
			}
		}
		if w.history.stale(&e.facts, e.revision) {
			w.metrics.redecided.Inc()
			e.ready = false
			w.work <- e
		}
	}
	return pending
}

// sweep lets time pass: stored events expire (NIP-40), and held ones.
func (w *writer) sweep() {
	now := w.cfg.Now().Unix()
	w.sweepStored(now)
	w.sweepHeld(now)
}

func (w *writer) sweepStored(now int64) {
	for {
		at, ok := w.cfg.Store.NextExpiry()
		if !ok || at > now {
			return
		}
		b := w.newBatch()
		n := b.sweep(now)
		if b.err == nil {
			b.finish()
		}
		if b.err != nil {
			b.abandon()
			w.cfg.Log.Error("remove expired events", "err", b.err)
			return
		}
		if n == 0 {
			return
		}
		w.metrics.expired.Add(float64(n))
	}
}
