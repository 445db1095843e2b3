package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"talon/host"
	"talon/host/wire"
)

// match is an event that a filter selects. The id is known where the place was
// long or the event was looked up, the author only in the latter case.
type match struct {
	place
	id     host.ID
	pubkey host.PubKey
}

var errPlaces = errors.New("index rows are damaged: run `talon check`")

// places calls yield for each of the packed places whose event the plan selects. n is
// what yield must know of the events.
func (v *snapshot) places(p *plan, n need, packed []byte, yield func(*match) error) error {
	n = max(n, p.rest)
	width := p.width()
	if len(packed)%width != 0 {
		return errPlaces
	}
	var found []match // what must be looked up
	if n > needPlace {
		found = make([]match, 0, len(packed)/width)
	}
	var m match
	for b := packed; len(b) > 0; b = b[width:] {
		m.place = parsePlace(b[:width])
		if m.seq <= 0 || m.seq > v.seq {
			return errPlaces
		}
		if !v.visible(p, m.place) {
			continue
		}
		if n > needPlace {
			found = append(found, m)
			continue
		}
		if width == longPlace {
			m.id = idOf(b)
		}
		if err := yield(&m); err != nil {
			return err
		}
	}
	return v.lookUp(p, n, found, yield)
}

// visible reports whether a place is within the plan's times and has not expired.
func (v *snapshot) visible(p *plan, at place) bool {
	if at.at < p.oldest || at.at > p.newest {
		return false
	}
	_, expired := v.expired[at.seq]
	return !expired
}

// lookUp reads the events at places and calls yield for those that satisfy the
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
		if ok, err := p.satisfied(n, row, m); !ok {
			return err
		}
		return yield(m)
	})
}

// parseRow reads the event of a row of table event.
func parseRow(packed []byte) (*host.Event, error) {
	text, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	return wire.ParseEvent(text)
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
	ids := make([][]byte, len(p.filter.IDs))
	for i := range ids {
		ids[i] = p.filter.IDs[i][:]
	}
	var found []match
	err := v.each(context.Background(), eventIDs, list(jsonHex(uniqueKeys(ids))), func(row []driver.Value) error {
		var m match
		id, _ := row[1].([]byte)
		if copy(m.id[:], id) != len(m.id) {
			return fmt.Errorf("event %v has an id of %d bytes: run `talon check`", row[2], len(id))
		}
		m.place = placeOf(row[0].(int64), id, row[2].(int64))
		if v.visible(p, m.place) {
			found = append(found, m)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n = max(n, p.rest); n > needPlace {
		return v.lookUp(p, n, found, yield)
	}
	for i := range found {
		if err := yield(&found[i]); err != nil {
			return err
		}
	}
	return nil
}
