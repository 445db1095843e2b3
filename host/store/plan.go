package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"

	"talon/host"
	"talon/host/wire"
)

// need is what must be known of an event beside its sort key.
type need uint8

const (
	needSortKey need = iota // nothing
	needMeta                // id and author
	needEvent               // the event itself
)

// plan is how one filter is answered: from which rows of table posting, and what
// is left to look at in the events found there. A filter with ids uses none.
type plan struct {
	filter   *host.Filter
	keys     [][]byte // each once
	kinds    []int64  // each once; nil for any
	byTag    bool     // the keys are those of a tag
	name     byte     // of the tag, or nameAuthor
	once     bool     // no event is found under two of the keys
	oldest   int64
	newest   int64
	residual need // conditions that keys and kinds do not cover
	author   map[host.PubKey]struct{}
}

// empty reports whether nothing can match: no event is older than the epoch.
func empty(f *host.Filter) bool { return f.Empty() || f.Until != nil && *f.Until < 0 }

// plan chooses the keys. REQUIRES: f is not empty.
func (v *snapshot) plan(f *host.Filter) (*plan, error) {
	f, err := v.atAddresses(f)
	if err != nil {
		return nil, err
	}
	p := &plan{filter: f, kinds: sortedKinds(f.Kinds), once: true, newest: math.MaxInt64}
	if f.Since != nil {
		p.oldest = *f.Since
	}
	if f.Until != nil {
		p.newest = *f.Until
	}
	switch {
	case f.IDs != nil:
		if f.Authors != nil || f.Kinds != nil || f.Tags != nil {
			p.residual = needEvent
		}
	case len(f.Tags) > 0:
		return p, v.choose(p)
	case f.Authors != nil:
		p.keys, p.name = v.authorKeys(f.Authors), nameAuthor
	case f.Kinds != nil:
		p.keys = [][]byte{keyKind}
	default:
		p.keys, p.kinds = [][]byte{keyTime}, []int64{0}
	}
	return p, nil
}

// atAddresses returns a filter by addresses as one by the ids of what is there.
func (v *snapshot) atAddresses(f *host.Filter) (*host.Filter, error) {
	i := slices.IndexFunc(f.Tags, func(t host.TagFilter) bool { return t.Name == host.AddressOf })
	if i < 0 || f.IDs != nil {
		return f, nil
	}
	byID := *f
	byID.IDs = []host.ID{}
	byID.Tags = slices.Delete(slices.Clone(f.Tags), i, i+1)
	if len(byID.Tags) == 0 {
		byID.Tags = nil
	}
	for _, value := range f.Tags[i].Values {
		row, err := v.first(`SELECT id FROM address WHERE key = ?`, v.keys.key(nameAddress, value))
		if err != nil {
			return nil, err
		}
		if row != nil {
			var id host.ID
			text, _ := row[0].([]byte)
			copy(id[:], text)
			byID.IDs = append(byID.IDs, id)
		}
	}
	return &byID, nil
}

// choose takes the tag with the fewest events, or the authors if they have fewer.
func (v *snapshot) choose(p *plan) error {
	f := p.filter
	options := make([][][]byte, 0, len(f.Tags)+1)
	for i := range f.Tags {
		keys := make([][]byte, len(f.Tags[i].Values))
		for j, value := range f.Tags[i].Values {
			keys[j] = v.keys.key(f.Tags[i].Name, value)
		}
		options = append(options, uniqueKeys(keys))
	}
	if f.Authors != nil {
		options = append(options, v.authorKeys(f.Authors))
	}
	best, err := v.fewest(p, options)
	if err != nil {
		return err
	}
	p.keys = options[best]
	p.byTag, p.name = best < len(f.Tags), nameAuthor
	if p.byTag {
		p.name = f.Tags[best].Name
	}
	p.once = !p.byTag || len(p.keys) == 1
	switch {
	case !p.byTag || len(f.Tags) > 1:
		p.residual = needEvent
	case f.Authors != nil:
		p.residual = needMeta
		p.author = make(map[host.PubKey]struct{}, len(f.Authors))
		for _, a := range f.Authors {
			p.author[a] = struct{}{}
		}
	}
	return nil
}

func (v *snapshot) authorKeys(authors []host.PubKey) [][]byte {
	keys := make([][]byte, len(authors))
	for i, a := range authors {
		keys[i] = v.keys.author(a)
	}
	return uniqueKeys(keys)
}

// fewest returns which of several sets of keys has the fewest candidates.
func (v *snapshot) fewest(p *plan, options [][][]byte) (best int, err error) {
	if len(options) == 1 {
		return 0, nil
	}
	for _, limit := range v.tune.probes {
		fewest := int64(math.MaxInt64)
		for i := range options {
			p.keys = options[i]
			sql, args := v.collect(p, countCandidates, limit)
			n, err := v.number(context.Background(), sql, args...)
			if err != nil {
				return 0, err
			}
			v.recentSpans(p, func(_ []byte, _ int64, rows int) { n += int64(rows) })
			n = min(n, int64(limit))
			if n < fewest {
				best, fewest = i, n
			}
		}
		if fewest < int64(limit) {
			break
		}
	}
	return best, nil
}

// collect completes a statement about the candidates of all keys and kinds, at
// most limit of them, in no order. Where the filter names no kinds, those that
// are too old or too new count as well: else it could read for long without
// finding anything.
func (v *snapshot) collect(p *plan, sql byKinds, limit int) (string, []driver.Value) {
	v.work += len(p.keys) * len(p.kinds) / soughtSpans
	keys := jsonHex(p.keys)
	if p.kinds == nil {
		return sql.any, list(keys, int64(limit))
	}
	return sql.some, list(keys, jsonInts(p.kinds), above(p.newest), under(p.oldest), int64(limit))
}

// width is the length of the sort keys under the plan's keys.
func (p *plan) width() int {
	if p.byTag {
		return shortSortKey
	}
	return longSortKey
}

func sortedKinds(kinds []host.Kind) []int64 {
	if kinds == nil {
		return nil
	}
	out := make([]int64, len(kinds))
	for i, k := range kinds {
		out[i] = int64(k)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func uniqueKeys(keys [][]byte) [][]byte {
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}

// match is an event that a filter selects. The id is known where the sort key was
// long or the event was looked up, the author only in the latter case.
type match struct {
	sortKey
	id     host.ID
	pubkey host.PubKey
}

var errSortKeys = errors.New("index rows are damaged: run `talon check`")

// sortKeys calls yield for each of the packed sort keys whose event the plan selects. n is
// what yield must know of the events.
func (v *snapshot) sortKeys(p *plan, n need, packed []byte, yield func(*match) error) error {
	n = max(n, p.residual)
	width := p.width()
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

// parseRow reads the event of a row of table event.
func parseRow(packed []byte) (*host.Event, error) {
	text, err := unpack(nil, packed)
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
			found = append(found, m)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n = max(n, p.residual); n > needSortKey {
		return v.lookUp(p, n, found, yield)
	}
	for i := range found {
		if err := yield(&found[i]); err != nil {
			return err
		}
	}
	return nil
}
