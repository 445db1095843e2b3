package purgatory

import (
	"fmt"

	"talon/host"
	"talon/host/bound"
	"talon/host/store/semantics"
)

// MaxEvicted is how many held events give way to one.
const MaxEvicted = 100

// room is the search for room for one event.
type room struct {
	rows    Rows
	limits  *semantics.HeldLimits
	quota   quota
	event   *host.Event
	row     *Row
	older   *Row // the version that the event replaces; nil for none
	size    int64
	evicted int
	changes *[]host.HeldChange
}

// makeRoom makes sure that an event fits, and returns why it does not.
//
// Known people have a part of their own, in which each author and each network may have an
// eighth. An event of theirs that does not fit there counts as a stranger's. Strangers have the
// rest, and each of their networks may have an eighth of the whole. When the rest is full, these
// give way, in this order:
//
//  1. events that depend on others, the first due first;
//  2. dormant announcements, whose git data did not come in time, the first due first;
//  3. the newest event of the network that has most, if that has more than the network of the
//     new event would have. If no network has more, the same holds for authors.
//
// Events that a module holds have a quota of their own, in which the same holds.
//
// An event that depends on another has two bounds more, and others of its kind alone give way
// to it. The author's own bound takes the author's own dormant events. The older version that
// the event replaces counts as removed.
func makeRoom(rows Rows, limits *semantics.HeldLimits, e *host.Event, row, older *Row, changes *[]host.HeldChange) (reason string, err error) {
	r := &room{rows: rows, limits: limits, quota: quotaOf(limits, row.Cause), event: e, row: row, older: older, size: int64(len(e.JSON)), changes: changes}
	if reason, err := r.ofAuthor(); err != nil || reason != "" {
		return reason, err
	}
	if row.Known {
		if row.Known, err = r.fitsKnown(); err != nil || row.Known {
			return "", err
		}
	}
	if row.Cause == CauseParent {
		if reason, err := r.ofParent(); err != nil || reason != "" {
			return reason, err
		}
	}
	if reason, err := r.ofNetwork(); err != nil || reason != "" {
		return reason, err
	}
	return r.ofStrangers()
}

// except is the row that does not give way: the older version counts as removed.
func (r *room) except() int64 {
	if r.older == nil {
		return 0
	}
	return r.older.Number
}

// evict removes a row that was found. It reports false for none, or if too many have given way.
func (r *room) evict(victim *Row, err error) (bool, error) {
	if err != nil || victim == nil || r.evicted == MaxEvicted {
		return false, err
	}
	r.evicted++
	return true, remove(r.rows, []*Row{victim}, host.StatusExpired, r.changes)
}

// ofAuthor applies the bound of one author.
func (r *room) ofAuthor() (reason string, err error) {
	if r.older != nil {
		return "", nil // the author has as many rows as before
	}
	n := int64(0)
	for _, part := range []Class{0, KnownPart} {
		w, err := r.rows.Weight(OfAuthor|r.quota.part|part, r.event.PubKey[:])
		if err != nil {
			return "", err
		}
		n += w.Events
	}
	if n < r.quota.byAuthor {
		return "", nil
	}
	if r.row.Cause != CauseVerdict {
		if ok, err := r.evict(r.rows.FirstDormant(&r.event.PubKey, 0)); err != nil || ok {
			return "", err
		}
	}
	return fmt.Sprintf(r.quota.own, n), nil
}

// weight returns what a key has in the quota, without the older version if that counts there.
func (r *room) weight(c Class, key []byte) (Weight, error) {
	w, err := r.rows.Weight(c|r.quota.part, key)
	if err != nil || r.older == nil || r.older.Known != (c&KnownPart != 0) {
		return w, err
	}
	same := true
	switch c &^ KnownPart {
	case OfNetwork:
		same = string(r.older.Network) == string(key)
	case OfDependents, OfDependentsNetwork:
		same = false
	}
	if same {
		w = w.minus(r.older)
	}
	return w, nil
}

// fitsKnown reports whether the event fits in the part for known people.
func (r *room) fitsKnown() (bool, error) {
	part := r.quota.known()
	share := shareOf(part)
	for _, bound := range []struct {
		class Class
		key   []byte
		limit Weight
	}{{OfAll, all, part}, {OfAuthor, r.event.PubKey[:], share}, {OfNetwork, r.row.Network, share}} {
		if bound.class == OfNetwork && len(bound.key) == 0 {
			continue
		}
		w, err := r.weight(bound.class|KnownPart, bound.key)
		if err != nil || !w.within(bound.limit, r.size) {
			return false, err
		}
	}
	return true, nil
}

// ofParent applies the bounds of events that depend on others.
func (r *room) ofParent() (reason string, err error) {
	onParent, ofNetwork, err := r.rows.CountDependents(r.row.Parent, r.row.Network)
	if err != nil {
		return "", err
	}
	client := len(r.row.Network) > 0 && !isRelay(r.row.Network)
	if onParent >= r.limits.ByParent || client && ofNetwork >= bound.Share(r.limits.ByParent) {
		return semantics.ReasonParentFull, nil
	}
	mine := Weight{}
	if len(r.row.Network) > 0 {
		if mine, err = r.weight(OfDependentsNetwork, r.row.Network); err != nil {
			return "", err
		}
	}
	if client && mine.Events >= bound.Share(r.limits.Dependents) {
		return semantics.ReasonParentFull, nil
	}
	w, err := r.weight(OfDependents, all)
	if err != nil || w.Events < r.limits.Dependents {
		return "", err
	}
	key, most, err := r.rows.Heaviest(OfDependentsNetwork, false)
	if err != nil || key == nil || most.Events < mine.Events+2 {
		return semantics.ReasonParentFull, err
	}
	if ok, err := r.evict(r.rows.NewestOf(OfDependentsNetwork, key, r.except())); err != nil || !ok {
		return semantics.ReasonParentFull, err
	}
	return "", nil
}

// ofNetwork applies the share of one network.
func (r *room) ofNetwork() (reason string, err error) {
	if len(r.row.Network) == 0 || isRelay(r.row.Network) {
		return "", nil
	}
	w, err := r.weight(OfNetwork, r.row.Network)
	if err != nil || w.within(shareOf(r.quota.whole), r.size) {
		return "", err
	}
	return r.quota.network, nil
}

// ofStrangers makes room in the part for strangers.
func (r *room) ofStrangers() (reason string, err error) {
	total, known := r.quota.whole, r.quota.known()
	limit := Weight{total.Events - known.Events, total.Bytes - known.Bytes}
	for {
		w, err := r.weight(OfAll, all)
		if err != nil || w.within(limit, r.size) {
			return "", err
		}
		if r.row.Cause == CauseParent {
			return semantics.ReasonFull, nil
		}
		ok := false
		if r.row.Cause == CauseGit {
			if ok, err = r.evict(r.rows.FirstDependent(r.except())); err == nil && !ok {
				ok, err = r.evict(r.rows.FirstDormant(nil, r.except()))
			}
		}
		if err == nil && !ok {
			ok, err = r.evictHeaviest(w.Events+1 <= limit.Events)
		}
		if err != nil || !ok {
			return r.quota.full, err
		}
	}
}

// evictHeaviest removes the newest event of the network that has most, or else of the author.
func (r *room) evictHeaviest(byBytes bool) (ok bool, err error) {
	for _, c := range []struct {
		class Class
		mine  []byte
	}{{OfNetwork, r.row.Network}, {OfAuthor, r.event.PubKey[:]}} {
		var mine Weight
		if len(c.mine) > 0 {
			if mine, err = r.weight(c.class, c.mine); err != nil {
				return false, err
			}
		}
		key, most, err := r.rows.Heaviest(c.class|r.quota.part, byBytes)
		if err != nil {
			return false, err
		}
		heavier := most.Events >= mine.Events+2
		if byBytes {
			heavier = most.Bytes > mine.Bytes+r.size
		}
		if key == nil || !heavier || string(key) == string(c.mine) {
			continue
		}
		if ok, err := r.evict(r.rows.NewestOf(c.class|r.quota.part, key, r.except())); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
