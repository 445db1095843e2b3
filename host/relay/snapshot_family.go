package relay

import (
	"slices"
	"time"

	"talon/host/negentropy"
)

// snapshotFamily is a snapshot and its successors. Memory that they share is counted once.
// snapshots.mu guards it.
type snapshotFamily struct {
	members []*snapshot // that have a set, the oldest first
	records int         // accounted for, in whole steps
}

// size returns how many records the members hold in memory. Records that two of them share are in
// all members between them too, so it compares neighbours only.
func (l *snapshotFamily) size() int {
	n := 0
	for i, s := range l.members {
		n += s.set.Len()
		if i > 0 {
			n -= s.set.Shared(l.members[i-1].set)
		}
	}
	return n
}

// complete gives the snapshot its set, and accounts for it. It reports false if
// there is no room.
func (ss *snapshots) complete(s *snapshot, set *negentropy.Set) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.set = set
	s.line.members = append(s.line.members, s)
	ss.recount(s.line)
	if ss.makeRoom(0) {
		return true
	}
	ss.remove(s)
	s.set = nil
	return false
}

// remove takes the snapshot out of its lineage. REQUIRES: ss.mu, and that no read
// for it is under way.
func (ss *snapshots) remove(s *snapshot) {
	if i := slices.Index(s.line.members, s); i >= 0 {
		s.line.members = slices.Delete(s.line.members, i, i+1)
	}
	ss.recount(s.line)
}

// recount accounts for what the lineage holds now. REQUIRES: ss.mu, and that no
// read for it is under way.
func (ss *snapshots) recount(l *snapshotFamily) {
	steps := (l.size() + snapshotStep - 1) / snapshotStep
	ss.account(l, steps*snapshotStep-l.records)
}

// reserve accounts for n more records of a lineage before they are there.
func (ss *snapshots) reserve(l *snapshotFamily, n int) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if !ss.makeRoom(n) {
		return false
	}
	ss.account(l, n)
	return true
}

// makeRoom forgets snapshots that nobody uses until there is room for n more
// records, and reports whether there is. REQUIRES: ss.mu.
func (ss *snapshots) makeRoom(n int) bool {
	limit := ss.relay.cfg.Limits.NegRecordsTotal
	for _, idle := range ss.byFilter {
		if ss.records+n <= limit {
			break
		}
		if idle.users == 0 {
			ss.forgetLocked(idle)
		}
	}
	return ss.records+n <= limit
}

// account adds to the records in all. REQUIRES: ss.mu.
func (ss *snapshots) account(l *snapshotFamily, n int) {
	l.records += n
	ss.records += n
	ss.relay.metrics.negRecords.Add(float64(n))
}

// release gives a snapshot back.
func (ss *snapshots) release(s *snapshot) {
	now := ss.relay.cfg.Now()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.users--
	s.lastUser = now
	ss.dropLocked(s)
	ss.forgetOldest()
}

// forgetOldest keeps the number of unused snapshots down. REQUIRES: ss.mu.
func (ss *snapshots) forgetOldest() {
	var oldest *snapshot
	idle := 0
	for _, s := range ss.byFilter {
		if s.users > 0 {
			continue
		}
		idle++
		if oldest == nil || s.lastUser.Before(oldest.lastUser) {
			oldest = s
		}
	}
	if idle > snapshotsIdle {
		ss.forgetLocked(oldest)
	}
}

// forget takes the snapshot out of the cache; those who use it keep it.
func (ss *snapshots) forget(s *snapshot) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.forgetLocked(s)
}

// forgetLocked takes the snapshot out of the cache. REQUIRES: ss.mu.
func (ss *snapshots) forgetLocked(s *snapshot) {
	if s.cached {
		s.cached, s.later = false, nil
		delete(ss.byFilter, s.key)
	}
	ss.dropLocked(s)
}

// dropLocked ends the account of a snapshot that nobody can reach. REQUIRES: ss.mu.
func (ss *snapshots) dropLocked(s *snapshot) {
	if s.users == 0 && !s.cached {
		ss.remove(s)
	}
}

// sweep forgets snapshots that have not been used for a while.
func (ss *snapshots) sweep(now time.Time) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byFilter {
		if s.users == 0 && now.Sub(s.lastUser) > snapshotKeep {
			ss.forgetLocked(s)
		}
	}
}
