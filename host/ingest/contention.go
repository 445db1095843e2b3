package ingest

import (
	"slices"
	"time"

	"talon/host"
)

// contention has the entries whose decisions went stale: a fact changed before their turn. The turn
// of each has come, so it is decided again, with the open batch visible. Other lanes go on at the
// same time. If all entries share a fact, such as a count of all events, many workers would decide
// them in vain. So the number of parallel decisions falls to one after a decision in vain, and
// grows while decisions hold.
type contention struct {
	contended []*entry // that are to be decided again, in order
	retrying  []*entry // that are being decided
	parallel  int      // most of them at a time, without slow ones
	held      int      // decisions in a row that did hold

	exclusiveFrom time.Time // not before, nothing waits for a decision again
}

const (
	// exclusiveAfter is after how many decisions that were made again in vain nothing
	// else takes effect while the next one is made, for exclusiveTime at most. Of any
	// time, this may be one part in exclusiveShare.
	exclusiveAfter = 3
	exclusiveTime  = 10 * time.Millisecond
	exclusiveShare = 5

	// maxRetries is how often a decision is made again before the event is refused.
	maxRetries = 8

	// retryFirstAfter is how many decisions in a row must hold before one more is made at
	// the same time.
	retryFirstAfter = 16
)

// recordOutcome records whether a decision that was made again held.
func (w *writer) recordOutcome(e *entry, stale bool) {
	i := slices.Index(w.retrying, e)
	if i < 0 {
		return
	}
	w.retrying = slices.Delete(w.retrying, i, i+1)
	if stale {
		w.parallel, w.held = 1, 0
		return
	}
	if w.held++; w.held >= retryFirstAfter && w.parallel < w.cfg.Workers {
		w.parallel++
		w.held = 0
	}
}

// tooFast is the answer to an event about which no decision held.
var tooFast = host.Verdict{Code: host.Busy, Reason: "error: what this event depends on changes too fast, try again later"}

// requeue queues an entry to be decided at its turn, again if it is stale. It reports
// true if that was tried so often that the event is refused.
func (w *writer) requeue(e *entry, stale bool) (refused bool) {
	if stale {
		e.retries++
		w.metrics.redecided.Inc()
		if e.retries > maxRetries && e.release == nil {
			w.metrics.contended.Inc()
			e.decision = decision{verdict: &tooFast}
			return true
		}
	}
	e.deferred = false
	w.schedule.yield(e, stale && e.retries == 1)
	w.contended = append(w.contended, e)
	return false
}

// decideContended hands contended entries to workers.
func (w *writer) decideContended() {
	for len(w.contended) > 0 && w.underway() < w.parallel {
		e := w.contended[0]
		w.contended[0] = nil
		w.contended = w.contended[1:]
		decided := w.decideAgain(e)
		w.retrying = append(w.retrying, e)
		if e.retries >= exclusiveAfter && !e.started.Before(w.exclusiveFrom) {
			w.wait(e, decided)
		}
	}
}

// decideAgain has an entry decided as of now, the open batch included.
func (w *writer) decideAgain(e *entry) (decided <-chan struct{}) {
	e.atTurn, e.started = true, time.Now()
	e.open, e.version, e.failures = slices.Clip(w.history.open), w.history.version, w.failures
	return w.schedule.retry(e)
}

// wait lets nothing take effect before the entry does, unless it takes too long.
func (w *writer) wait(e *entry, decided <-chan struct{}) {
	timer := time.NewTimer(exclusiveTime)
	defer timer.Stop()
	select {
	case <-decided:
		w.metrics.exclusive.WithLabelValues("decided").Inc()
		w.schedule.claim(e)
		if next := w.applyNext(e); next != nil {
			w.ready = append(w.ready, next)
		}
	case <-timer.C:
		w.metrics.exclusive.WithLabelValues("timeout").Inc()
	}
	now := time.Now()
	w.exclusiveFrom = now.Add((exclusiveShare - 1) * now.Sub(e.started))
}

// underway counts the decisions under way that are not slow yet.
func (w *writer) underway() (n int) {
	for _, e := range w.retrying {
		if time.Since(e.started) < slowAfter {
			n++
		}
	}
	return n
}

// untilSlow returns when the next contended entry may be decided at the same time as a slow one. It
// returns 0 if none waits.
func (w *writer) untilSlow() (wait time.Duration) {
	if len(w.contended) == 0 {
		return 0
	}
	for _, e := range w.retrying {
		if left := slowAfter - time.Since(e.started); left > 0 && (wait == 0 || left < wait) {
			wait = left
		}
	}
	return wait
}
