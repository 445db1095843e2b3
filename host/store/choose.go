package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"math"
	"slices"

	"talon/host"
)

// choosePlan chooses the keys of a plan for one space. REQUIRES: f is not empty.
func (v *snapshot) choosePlan(f *host.Filter, s space) (*plan, error) {
	f, err := v.atAddresses(f)
	if err != nil {
		return nil, err
	}
	p := &plan{filter: f, kinds: s.kinds(sortedKinds(f.Kinds)), once: true, newest: math.MaxInt64}
	p.low, p.high = s.bounds()
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
		p.keys, p.kinds = [][]byte{keyTime}, s.kinds([]int64{0})
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
		return sql.any, list(keys, p.low, p.high, int64(limit))
	}
	return sql.some, list(keys, jsonInts(p.kinds), above(p.newest), under(p.oldest), int64(limit))
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
