package ingest

import (
	"time"

	"talon/host/bound"
)

// class is the lanes of known people, or those of everybody else. If both have work, known people
// get half of the workers' and of the writer's time, and more if most networks with work are
// theirs. Within a class, lanes share as [schedule] says.
type class struct {
	known    bool
	fast     laneHeap // lanes with work
	accounts map[accountKey]*account
	clock    time.Duration // virtual time: of the lane of this class that was served last
	used     time.Duration // virtual time of the class
	busy     int           // neighbourhoods, known keys and lanes without an account that have work
}

func newClass(known bool) *class {
	return &class{known: known, fast: newLaneHeap(), accounts: make(map[accountKey]*account)}
}

// classOf returns the class of a client.
func (s *schedule) classOf(by bound.Holder) *class {
	if by.Known {
		return s.known
	}
	return s.others
}

// chargeClass counts time against a class. REQUIRES: mu.
func (s *schedule) chargeClass(c *class, took time.Duration) {
	if c.known && s.known.busy > s.others.busy {
		took = took * time.Duration(s.others.busy) / time.Duration(s.known.busy)
	}
	c.used += took
}

// serve notes that a class is served. The other one, if it has nothing that can be served, does not
// save up time. REQUIRES: mu.
func (s *schedule) serve(c *class, otherHasWork bool) {
	s.clock = max(s.clock, c.used)
	if other := s.other(c); !otherHasWork {
		other.used = max(other.used, s.clock-maxCredit)
	}
}

func (s *schedule) other(c *class) *class {
	if c == s.known {
		return s.others
	}
	return s.known
}

// enter puts a lane that has nothing to do into a class. REQUIRES: mu.
func (s *schedule) enter(l *lane, by bound.Holder) {
	c := s.classOf(by)
	if l.class == c && l.author == by.Key {
		return
	}
	if l.class != nil {
		l.class.closeAccounts(&l.payers)
	}
	l.class, l.author, l.used = c, by.Key, c.clock
	l.payers = c.openAccounts(by)
}

// countBusy counts a lane that has work now, or has none any more.
func (l *lane) countBusy(n int) {
	a := l.payers[1]
	if a == nil {
		l.class.busy += n
		return
	}
	was := a.busy > 0
	if a.busy += n; (a.busy > 0) != was {
		l.class.busy += n
	}
}

// turn is where a decided entry is among those of other lanes.
type turn struct {
	class time.Duration // that the class of its lane has used
	known bool
	lane  laneKey
}

func (t turn) before(other turn) bool {
	switch {
	case t.known == other.known:
		return t.lane.less(other.lane)
	case t.class != other.class:
		return t.class < other.class
	}
	return t.known
}
