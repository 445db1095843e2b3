package ingest

import (
	"context"
	"time"
)

// decideAll is a worker: it verifies and decides entries until there are no more.
func (p *Pipeline) decideAll(ctx context.Context) {
	s := p.schedule
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		e := s.take()
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
		p.decide(ctx, e)
		s.done(e, time.Since(began))
		s.mu.Lock()
		s.stopDeciding()
	}
}

// stopDeciding gives up a worker's turn. REQUIRES: mu.
func (s *schedule) stopDeciding() {
	s.deciding--
	if s.returning > 0 {
		s.resume.Signal()
	}
}

// wait runs f, which may block, while another goroutine works instead of this
// worker. It returns how long the worker then waited for its turn to go on.
func (s *schedule) wait(f func()) (parked time.Duration) {
	s.mu.Lock()
	s.stopDeciding()
	s.waiting++
	s.callIfWork()
	s.mu.Unlock()

	f()

	s.mu.Lock()
	s.waiting--
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
	s.mu.Unlock()
	return parked
}
