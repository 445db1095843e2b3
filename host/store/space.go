package store

import (
	"talon/host"
)

// withheldKinds is what the index rows of a withheld event add to its kind. So the rows of
// withheld events have spans of their own: whoever may not see them reads other spans, and
// counts and limits follow from rows as before.
//
// An event has in addition a row for each key and set of its audience, under [host.AudienceOf].
// A reader with keys is answered from two plans: the spans of everybody's events, and those of
// withheld ones with one more condition, as if the audience were a tag.
const withheldKinds = 1 << 16

// space is the part of the index rows that a plan reads.
type space uint8

const (
	spacePublic   space = iota // events for everybody
	spaceWithheld              // all others
	spaceAll
)

// bounds returns the kinds of the index rows of a space.
func (s space) bounds() (low, high int64) {
	switch s {
	case spacePublic:
		return 0, withheldKinds
	case spaceWithheld:
		return withheldKinds, 2 * withheldKinds
	}
	return 0, 2 * withheldKinds
}

// kinds returns the kinds of index rows for the kinds of a filter.
func (s space) kinds(kinds []int64) []int64 {
	if kinds == nil || s == spacePublic {
		return kinds
	}
	var out []int64
	if s == spaceAll {
		out = kinds
	}
	for _, k := range kinds {
		out = append(out, k+withheldKinds)
	}
	return out
}

// indexKind is the kind of the index rows of an event.
func indexKind(e *host.Event, kind int64) int64 {
	if e.Audience != nil {
		return kind + withheldKinds
	}
	return kind
}

// plans returns how a filter is answered: from the events that are for everybody, and from those
// that are withheld from others than the reader. No event is found by two plans. REQUIRES: f is
// not empty.
func (v *snapshot) plans(f *host.Filter) ([]*plan, error) {
	first := spacePublic
	if f.Reader != nil && f.Reader.All && v.withheld > 0 {
		first = spaceAll
	}
	var plans []*plan
	if only := f.Reader != nil && f.Reader.WithheldOnly; !only || f.IDs != nil {
		p, err := v.choosePlan(f, first)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
		if v.withheld == 0 || p.filter.IDs != nil || first == spaceAll {
			return plans, nil
		}
	}
	values := f.Reader.Values()
	if len(values) == 0 || v.withheld == 0 {
		return plans, nil
	}
	own := *f
	own.Tags = append(append(make([]host.TagFilter, 0, len(f.Tags)+1), f.Tags...), host.TagFilter{Name: host.AudienceOf, Values: values})
	p, err := v.choosePlan(&own, spaceWithheld)
	if err != nil {
		return nil, err
	}
	return append(plans, p), nil
}

// receives reports whether a withheld event is for the reader of a filter.
func (v *snapshot) receives(f *host.Filter, seq int64) (bool, error) {
	if f.Reader == nil || f.Reader.All {
		return f.Reader != nil, nil
	}
	row, err := v.first(`SELECT audience FROM event WHERE seq = ?`, seq)
	if err != nil || row == nil {
		return false, err
	}
	a, err := audienceOf(row[0])
	return err == nil && f.Reader.Receives(a), err
}
