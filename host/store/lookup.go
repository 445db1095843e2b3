package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"talon/host"
)

// match is an event that a filter selects. The id is known where the sort key was
// long or the event was looked up, the author only in the latter case.
type match struct {
	sortKey
	id     host.ID
	pubkey host.PubKey

	withheld bool // known of what a filter with ids selects
}

// sortKeys calls yield for each of the packed sort keys whose event the plan selects. n is
// what yield must know of the events.
func (v *snapshot) sortKeys(p *plan, n need, packed []byte, yield func(*match) error) error {
	n = max(n, p.residual)
	width := p.width()
	if n == needID {
		if n = needSortKey; width == shortSortKey {
			n = needMeta
		}
	}
	if len(packed)%width != 0 {
		return errSortKeys
	}
	var found []match // what must be looked up
	if n > needSortKey {
		found = make([]match, 0, len(packed)/width)
	}
	var m match
	for b := packed; len(b) > 0; b = b[width:] {
		m.sortKey = parseSortKey(b[:width])
		if m.seq <= 0 || m.seq > v.seq {
			return errSortKeys
		}
		if !v.visible(p, m.sortKey) {
			continue
		}
		if n > needSortKey {
			found = append(found, m)
			continue
		}
		if width == longSortKey {
			m.id = idOf(b)
		}
		if err := yield(&m); err != nil {
			return err
		}
	}
	return v.lookUp(p, n, found, yield)
}

// visible reports whether a sort key is within the plan's times and has not expired.
func (v *snapshot) visible(p *plan, at sortKey) bool {
	if at.at < p.oldest || at.at > p.newest {
		return false
	}
	_, expired := v.expired[at.seq]
	return !expired
}

// lookUp reads the events at sort keys and calls yield for those that satisfy the
// plan's other conditions.
func (v *snapshot) lookUp(p *plan, n need, found []match, yield func(*match) error) error {
	if len(found) == 0 {
		return nil
	}
	rows := make([]int64, len(found))
	for i := range found {
		rows[i] = found[i].seq
	}
	sql := eventMeta
	if n == needEvent {
		sql = eventText
	}
	values := len(p.filter.IDs) + len(p.filter.Authors) + len(p.filter.Kinds)
	for i := range p.filter.Tags {
		values += len(p.filter.Tags[i].Values)
	}
	next := 0
	return v.each(context.Background(), sql, list(jsonInts(rows)), func(row []driver.Value) error {
		for next < len(found) && found[next].seq != row[0] {
			next++ // an index row without an event, which Check reports
		}
		if next == len(found) {
			return nil
		}
		m := &found[next]
		next++
		if n == needEvent {
			v.work += values / matchedValues * (1 + size(row)/matchedBytes)
		}
		if ok, err := p.satisfied(n, row, m); !ok {
			return err
		}
		return yield(m)
	})
}

// satisfied completes m from a row of eventMeta or eventText and reports whether
// the plan's other conditions hold.
func (p *plan) satisfied(n need, row []driver.Value, m *match) (bool, error) {
	if n == needEvent {
		text, _ := row[1].([]byte)
		e, err := parseRow(text)
		if err != nil {
			return false, fmt.Errorf("event %d cannot be read: %w: run `talon check`", m.seq, err)
		}
		if e.Audience, err = audienceOf(row[3]); err != nil {
			return false, err
		}
		m.pubkey, m.id = e.PubKey, e.ID
		return p.filter.Matches(e), nil
	}
	pubkey, _ := row[1].([]byte)
	id, _ := row[2].([]byte)
	copy(m.pubkey[:], pubkey)
	copy(m.id[:], id)
	if p.author == nil {
		return true, nil
	}
	_, ok := p.author[m.pubkey]
	return ok, nil
}

// byID calls yield for the events that a filter with ids selects.
func (v *snapshot) byID(p *plan, n need, yield func(*match) error) error {
	ids := slices.Clone(p.filter.IDs)
	slices.SortFunc(ids, func(a, b host.ID) int { return bytes.Compare(a[:], b[:]) })
	ids = slices.Compact(ids)
	keys := make([][]byte, len(ids))
	for i := range ids {
		keys[i] = v.keys.id(ids[i])
	}
	var found []match
	err := v.each(context.Background(), eventIDs, list(jsonHex(keys)), func(row []driver.Value) error {
		m := match{id: ids[row[0].(int64)]}
		m.sortKey = sortKeyOf(row[1].(int64), m.id[:], row[2].(int64))
		if v.visible(p, m.sortKey) {
			m.withheld = row[3] != nil
			found = append(found, m)
		}
		return nil
	})
	if err != nil {
		return err
	}
	only := p.filter.Reader != nil && p.filter.Reader.WithheldOnly
	if v.withheld > 0 || only {
		received := found[:0]
		for _, m := range found {
			ok := !m.withheld && !only
			if m.withheld {
				if ok, err = v.receives(p.filter, m.seq); err != nil {
					return err
				}
			}
			if ok {
				received = append(received, m)
			}
		}
		found = received
	}
	if n = max(n, p.residual); n > needID {
		return v.lookUp(p, n, found, yield)
	}
	for i := range found {
		if err := yield(&found[i]); err != nil {
			return err
		}
	}
	return nil
}
