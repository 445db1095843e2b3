package postgres

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"talon/host"
)

// tables are a table of events and that of their tags.
type tables struct{ event, tag string }

var (
	stored = tables{"event", "tag"}
	held   = tables{"held", "held_tag"}
)

// query is a statement as it is made.
type query struct {
	strings.Builder
	args []any
}

// arg adds an argument and returns how the statement names it.
func (q *query) arg(v any) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args))
}

// space is the part of the stored events that a selection reads.
type space uint8

const (
	spacePublic   space = iota // events for everybody
	spaceWithheld              // all others
	spaceAll
)

// kinds returns the kinds of a filter as the indexes have them.
func (s space) kinds(kinds []host.Kind) []int32 {
	list := kindInts(kinds)
	if s == spacePublic {
		return list
	}
	var out []int32
	if s == spaceAll {
		out = list
	}
	for _, k := range list {
		out = append(out, k+withheldKinds)
	}
	return out
}

// within is the condition that a kind is one of the space.
func (s space) within(column string) string {
	switch s {
	case spacePublic:
		return column + " < " + strconv.Itoa(withheldKinds)
	case spaceWithheld:
		return column + " >= " + strconv.Itoa(withheldKinds)
	}
	return column + " >= 0"
}

// part is a filter within one space.
type part struct {
	filter *host.Filter
	space  space
}

// parts returns how a filter of stored events is answered: from those that are for everybody, and
// from those that are withheld from others than the reader. No event is in two.
func parts(f *host.Filter) []part {
	r := f.Reader
	if r != nil && r.All {
		return []part{{f, spaceAll}}
	}
	values := r.Values()
	switch {
	case len(values) > 0:
	case r != nil && r.WithheldOnly:
		nothing := *f
		nothing.IDs = []host.ID{}
		return []part{{&nothing, spacePublic}}
	default:
		return []part{{f, spacePublic}}
	}
	own := *f
	own.Tags = append(append(make([]host.TagFilter, 0, len(f.Tags)+1), f.Tags...), host.TagFilter{Name: host.AudienceOf, Values: values})
	if r.WithheldOnly {
		return []part{{&own, spaceWithheld}}
	}
	return []part{{f, spacePublic}, {&own, spaceWithheld}}
}

// empty reports whether nothing can match: no event is older than the epoch.
func empty(f *host.Filter) bool { return f.Empty() || f.Until != nil && *f.Until < 0 }

// Ways to find the events that a filter matches, other than by the tag of a number.
const (
	byIDs       = -1
	byAuthors   = -2
	byKinds     = -3
	byTime      = -4
	byAddresses = -5
)

// ways returns how the events of a filter may be found. Which of several costs least
// depends on what is stored.
func ways(f *host.Filter) []int {
	switch {
	case f.IDs != nil:
		return []int{byIDs}
	case len(f.Tags) > 0:
		var list []int
		for i, t := range f.Tags {
			if t.Name == host.AddressOf {
				return []int{byAddresses}
			}
			list = append(list, i)
		}
		if f.Authors != nil {
			list = append(list, byAuthors)
		}
		return list
	case f.Authors != nil:
		return []int{byAuthors}
	case f.Kinds != nil:
		return []int{byKinds}
	}
	return []int{byTime}
}

// once reports whether that way meets no event twice.
func once(f *host.Filter, way int) bool {
	return way < 0 || len(f.Tags[way].Values) == 1
}

// selection is one filter's part of a query.
type selection struct {
	*query
	keys   *keyring
	tables tables
	filter *host.Filter
	way    int
	space  space
	now    int64
	limit  int // -1 for none
}

// write appends a query for place and seq of what matches: in the order of answers if
// there is a limit.
//
// Each span of an index, which is a key and a kind, is a lateral query that ends after
// limit rows. Where the filter names no kinds, those of a key are found by going from one
// to the next in the index.
func (s *selection) write() {
	f := s.filter
	x, span := s.tables.event, "" // what is scanned, and what tells its spans
	var where []string
	add := func(condition string) { where = append(where, condition) }
	switch s.way {
	case byIDs:
		add("x.id = ANY(" + s.arg(idBytes(f.IDs)) + "::bytea[])")
	case byAddresses:
		// The code below handles addresses.
	case byAuthors:
		span = s.spans(s.tables.event, "pubkey", authorBytes(f.Authors))
		add("x.pubkey = k.key AND x.kind = n.kind")
	case byKinds:
		span = "unnest(" + s.arg(s.space.kinds(f.Kinds)) + "::int[]) n (kind)"
		add("x.kind = n.kind")
	case byTime:
	default:
		x = s.tables.tag
		span = s.spans(s.tables.tag, "key", s.keys.keys(f.Tags[s.way].Name, f.Tags[s.way].Values))
		add("x.key = k.key AND x.kind = n.kind")
	}
	switch {
	case span != "":
	case f.Kinds != nil:
		add("x.kind = ANY(" + s.arg(s.space.kinds(f.Kinds)) + "::int[])")
	case s.tables == stored:
		add(s.space.within("x.kind"))
	}
	newest, oldest := int64(math.MaxInt64), int64(0)
	if f.Until != nil {
		newest = *f.Until
	}
	if f.Since != nil {
		oldest = *f.Since
	}
	if f.Until != nil || f.Since != nil {
		add("x.place > " + s.arg(above(newest)) + " AND x.place < " + s.arg(under(oldest)))
	}
	if s.tables == stored {
		add("(x.expires IS NULL OR x.expires > " + s.arg(s.now) + ")")
	}
	e := "x" // the event
	if x == s.tables.tag {
		e = "e"
	}
	join := false
	if f.Authors != nil && s.way != byAuthors {
		add(e + ".pubkey = ANY(" + s.arg(authorBytes(f.Authors)) + "::bytea[])")
		join = true
	}
	for i := range f.Tags {
		keys := func() string { return s.arg(s.keys.keys(f.Tags[i].Name, f.Tags[i].Values)) + "::bytea[]" }
		switch {
		case i == s.way:
		case f.Tags[i].Name == host.AddressOf:
			add(e + ".address = ANY(" + keys() + ")")
			join = true
		default:
			// Looked up for each candidate: a join would go through all that the keys have.
			add("EXISTS (SELECT 1 FROM unnest(" + keys() + ") v (key) CROSS JOIN LATERAL (SELECT 1 FROM " +
				s.tables.tag + " y WHERE y.key = v.key AND y.kind = x.kind AND y.place = x.place LIMIT 1) z)")
		}
	}
	s.WriteString("(SELECT ")
	if !once(f, s.way) {
		s.WriteString("DISTINCT ")
	}
	s.WriteString("p.place, p.seq FROM ")
	if span != "" {
		s.WriteString(span + " CROSS JOIN LATERAL ")
	}
	s.WriteString("(SELECT x.place, x.seq FROM " + x + " x")
	if join && e == "e" {
		s.WriteString(" JOIN " + s.tables.event + " e ON e.seq = x.seq")
	}
	if len(where) > 0 {
		s.WriteString(" WHERE " + strings.Join(where, " AND "))
	}
	end := ""
	if s.limit >= 0 {
		end = " LIMIT " + s.arg(int64(s.limit))
		s.WriteString(" ORDER BY x.place" + end)
	}
	s.WriteString(") p")
	if end != "" {
		s.WriteString(" ORDER BY p.place" + end)
	}
	s.WriteString(")")
}

// spans returns what yields each key with each kind that matters.
func (s *selection) spans(table, column string, keys [][]byte) string {
	from := "unnest(" + s.arg(keys) + "::bytea[]) k (key) CROSS JOIN "
	if s.filter.Kinds != nil {
		return from + "unnest(" + s.arg(s.space.kinds(s.filter.Kinds)) + "::int[]) n (kind)"
	}
	first := "SELECT z.kind FROM " + table + " z WHERE z." + column + " = k.key AND " + s.space.within("z.kind")
	return from + `LATERAL (WITH RECURSIVE r (kind) AS (
			(` + first + ` ORDER BY z.kind LIMIT 1)
			UNION ALL
			SELECT (` + first + ` AND z.kind > r.kind ORDER BY z.kind LIMIT 1) FROM r WHERE r.kind IS NOT NULL
		) SELECT kind FROM r WHERE kind IS NOT NULL) n`
}

func idBytes(ids []host.ID) [][]byte {
	list := make([][]byte, len(ids))
	for i := range ids {
		list[i] = ids[i][:]
	}
	return unique(list)
}

func authorBytes(authors []host.PubKey) [][]byte {
	list := make([][]byte, len(authors))
	for i := range authors {
		list[i] = authors[i][:]
	}
	return unique(list)
}

func kindInts(kinds []host.Kind) []int32 {
	list := make([]int32, len(kinds))
	for i, k := range kinds {
		list[i] = int32(k)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
