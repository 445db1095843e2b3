package store

import (
	"encoding/hex"
	"strconv"
)

// A span is what table posting has under one key and one kind: rows in the
// order of answers.
//
// Places come out of SQLite packed, many in one value: a row costs several times
// as much on its way out as inside. group_concat takes blobs as they are.

// spanSortKeys takes key, kind, above, under, limit.
const spanSortKeys = `
	SELECT group_concat(place, '') FROM (
		SELECT place FROM posting
		WHERE key = ?1 AND kind = ?2 AND place > ?3 AND place < ?4 ORDER BY place LIMIT ?5)`

// spanCount takes key, kind, above, under.
const spanCount = `SELECT count(*) FROM posting WHERE key = ?1 AND kind = ?2 AND place > ?3 AND place < ?4`

// byKinds is a statement about several spans in two forms: for kinds that are
// named and for any between two bounds. Keys and kinds are JSON arrays.
type byKinds struct{ some, any string }

// spans lists spans, as the number of the key and the kind, with their first sort keys. Its
// form some takes keys, above, under, limit and kinds, and also lists spans that have no sort
// keys. Its form any takes keys, above, under, limit, and the first kind and the one behind the
// last.
var spans = byKinds{
	some: `
	SELECT v.key, k.value, (
		SELECT group_concat(place, '') FROM (
			SELECT p.place FROM posting p
			WHERE p.key = unhex(v.value) AND p.kind = k.value AND p.place > ?2 AND p.place < ?3 ORDER BY p.place LIMIT ?4))
	FROM json_each(?1) v CROSS JOIN json_each(?5) k`,
	any: `
	WITH RECURSIVE span (n, key, kind) AS (
		SELECT v.key, unhex(v.value), (SELECT min(p.kind) FROM posting p WHERE p.key = unhex(v.value) AND p.kind >= ?5 AND p.kind < ?6) FROM json_each(?1) v
		UNION ALL
		SELECT n, key, (SELECT min(p.kind) FROM posting p WHERE p.key = span.key AND p.kind > span.kind AND p.kind < ?6)
		FROM span WHERE kind IS NOT NULL)
	SELECT n, kind, (
		SELECT group_concat(place, '') FROM (
			SELECT p.place FROM posting p
			WHERE p.key = span.key AND p.kind = span.kind AND p.place > ?2 AND p.place < ?3 ORDER BY p.place LIMIT ?4))
	FROM span WHERE kind IS NOT NULL`,
}

// spansBehind takes spans as jsonSpans writes them, under, limit, and lists the next
// sort keys of each, with its number.
const spansBehind = `
	SELECT v.key, (
		SELECT group_concat(place, '') FROM (
			SELECT p.place FROM posting p
			WHERE p.key = unhex(v.value ->> 0) AND p.kind = v.value ->> 1 AND p.place > unhex(v.value ->> 2) AND p.place < ?2
			ORDER BY p.place LIMIT ?3))
	FROM json_each(?1) v`

// keySortKeys takes keys, limit, the first kind and the one behind the last, and lists sort keys
// of each key, those of all these kinds, with the number of the key.
const keySortKeys = `
	SELECT v.key, (
		SELECT CAST(group_concat(place, '') AS BLOB) FROM (
			SELECT p.place FROM posting p WHERE p.key = unhex(v.value) AND p.kind >= ?3 AND p.kind < ?4 LIMIT ?2))
	FROM json_each(?1) v`

// candidates are sort keys of several spans, in no order, with the number of the key. The form some takes keys,
// kinds, above, under, limit; the form any takes keys, the first kind, the one behind the last,
// and limit.
var candidates = byKinds{
	some: `
	SELECT p.place, v.key AS n FROM json_each(?) v CROSS JOIN json_each(?) k CROSS JOIN posting p
	WHERE p.key = unhex(v.value) AND p.kind = k.value AND p.place > ? AND p.place < ? LIMIT ?`,
	any: `
	SELECT p.place, v.key AS n FROM json_each(?) v CROSS JOIN posting p
	WHERE p.key = unhex(v.value) AND p.kind >= ? AND p.kind < ? LIMIT ?`,
}

var (
	packCandidates  = candidates.inside(`SELECT CAST(group_concat(place, '') AS BLOB), max(n) FROM (`, `)`)
	countCandidates = candidates.inside(`SELECT count(*) FROM (`, `)`)
)

func (s byKinds) inside(before, after string) byKinds {
	return byKinds{before + s.some + after, before + s.any + after}
}

// Events by row number, a JSON array, in its order.
const (
	eventMeta = `SELECT e.seq, e.pubkey, e.id FROM json_each(?) r CROSS JOIN event e ON e.seq = r.value`
	eventText = `SELECT e.seq, e.json, r.key, e.audience FROM json_each(?) r CROSS JOIN event e ON e.seq = r.value`
)

// shortTexts takes rows, a JSON array, and a length, and returns one row: the packed texts up
// to that length, one behind the other, and of all the numbers and the lengths.
const shortTexts = `
	SELECT
		CAST(group_concat(CASE WHEN length(e.json) <= ?2 THEN e.json END, '') AS BLOB),
		group_concat(r.key), group_concat(length(e.json))
	FROM json_each(?1) r CROSS JOIN event e ON e.seq = r.value`

// eventIDs takes keys of ids, a JSON array, and lists those that are stored, with their numbers.
const eventIDs = `SELECT v.key, i.created_at, i.event, i.withheld FROM json_each(?) v CROSS JOIN event_id i ON i.key = unhex(v.value)`

// eventOfID takes the key of an id.
const eventOfID = `SELECT event FROM event_id WHERE key = ?`

// jsonHex returns values as a JSON array of hex, for json_each.
func jsonHex[T ~[]byte](values []T) string {
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = hex.AppendEncode(b, v)
		b = append(b, '"')
	}
	return string(append(b, ']'))
}

func jsonInts(list []int64) string {
	b := make([]byte, 1, 2+8*len(list))
	b[0] = '['
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}
