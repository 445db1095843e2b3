package ingest

import (
	"context"
	"runtime"
	"time"
)

// yieldAfter is how long a worker decides before it lets others have its processor. The
// runtime would let it go on for 10 ms, while the writer, which has less to do, waits for one
// after each statement of the store that takes long.
const yieldAfter = 100 * time.Microsecond

// decideAll is a worker: it verifies and decides entries until there are no more.
func (p *Pipeline) decideAll(ctx context.Context) {
	s := p.schedule
	var worked time.Duration // since it let others go on
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		e := s.dequeue()
		if e == nil {
			// One that a waiting worker called for is not needed when that one is back.
			if s.finished || s.idle >= s.workers {
				return
			}
			s.idle++
			s.work.Wait()
			s.idle--
			continue
		}
		s.deciding++
		s.mu.Unlock()
		began := time.Now()
		p.decideOrFail(ctx, e)
		took := time.Since(began)
		s.mu.Lock()
		s.stopDeciding() // before the writer, which done wakes, asks whether somebody decides
		s.done(e, took)
		if worked += took; worked >= yieldAfter {
			worked = 0
			s.mu.Unlock()
			runtime.Gosched()
			s.mu.Lock()
		}
	}
}

// decideOrFail decides about an entry. If that panics, the host has failed to decide: the entry is
// answered with the error. A decision changes nothing but its entry, so nothing else is left half
// done.
func (p *Pipeline) decideOrFail(ctx context.Context, e *entry) {
	err := p.deciding.Run(func() error {
		p.decide(ctx, e)
		return nil
	})
	if err != nil {
		e.decision = decision{err: err}
	}
}

// stopDeciding gives up a worker's turn. REQUIRES: mu.
func (s *schedule) stopDeciding() {
	s.deciding--
	if s.returning > 0 {
		s.resume.Signal()
	}
}

// handOff is how long a worker keeps its turn while it reads a fact. Most are in memory:
// to begin another decision for each would have many under way, each slowed by all
// others, and the one of who has used least could not be made first.
const handOff = time.Millisecond

// Wait runs f, which may block for a module, while another goroutine works instead of
// this worker. It returns how long that took, and how long the worker then waited for
// its turn to go on.
func (s *schedule) Wait(module string, f func()) (waited, parked time.Duration) {
	func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.startWaiting(module)
	}()
	began := time.Now()
	defer func() { // also if f panics, or the schedule would count a worker too few
		waited = time.Since(began)
		s.mu.Lock()
		defer s.mu.Unlock()
		parked = s.stopWaiting(module, waited)
	}()
	f()
	return // set by the above
}

// Read is Wait for an f that seldom blocks: another goroutine works only once it has
// taken handOff.
func (s *schedule) Read(module string, f func()) (waited, parked time.Duration) {
	var done, waits bool // guarded by s.mu
	began := time.Now()
	timer := time.AfterFunc(handOff, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !done {
			waits = true
			s.startWaiting(module)
		}
	})
	defer func() { // also if f panics
		if timer.Stop() {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if done = true; waits {
			waited = time.Since(began)
			parked = s.stopWaiting(module, waited)
		}
	}()
	f()
	return // set by the above
}

// startWaiting gives up a worker's turn until stopWaiting. REQUIRES: mu.
func (s *schedule) startWaiting(module string) {
	s.stopDeciding()
	s.waiting++
	sh := s.share(module)
	sh.waiting++
	sh.gauge.Inc()
	s.callIfWork()
}

// stopWaiting returns when the worker may go on, and how long that took. REQUIRES: mu.
func (s *schedule) stopWaiting(module string, waited time.Duration) (parked time.Duration) {
	s.waiting--
	sh := s.share(module)
	sh.waiting--
	sh.gauge.Dec()
	sh.waits.Observe(waited.Seconds())
	if s.deciding >= s.workers {
		began := time.Now()
		s.returning++
		for s.deciding >= s.workers {
			s.resume.Wait()
		}
		s.returning--
		parked = time.Since(began)
	}
	s.deciding++
	s.callIfWork()
	return parked
}
