package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"slices"
	"strings"

	"talon/host"
)

// fills do what statements alone cannot, by the number of the step: they run after its
// statements, in the same transaction.
var fills = map[int]func(*conn) error{5: indexMaintainers, 8: indexIDs, 12: indexWords, 13: (*conn).countUsage}

// indexMaintainers adds the index rows that say whom repository announcements list as
// maintainers, of those that are stored and of those in purgatory.
func indexMaintainers(c *conn) error {
	keys, err := c.keyring()
	if err != nil {
		return err
	}
	index := func(text []byte, number int64, insert func(r posting) error) error {
		e, err := parseRow(text)
		if err != nil {
			return nil // Check reports it
		}
		for _, r := range keys.maintainerPostings(nil, e, number) {
			if err := insert(r); err != nil {
				return err
			}
		}
		return nil
	}
	err = c.eachOfKind(host.KindAnnouncement, func(seq int64, text []byte) error {
		return index(text, seq, func(r posting) error { return c.exec(insertPostings[1], r.key, r.kind, r.sortKey) })
	})
	if err != nil {
		return err
	}
	held, err := c.numbers(`SELECT number FROM held WHERE kind = ?`, int64(host.KindAnnouncement))
	if err != nil {
		return err
	}
	for _, number := range held {
		row, err := c.first(`SELECT json FROM held WHERE number = ?`, number)
		if err != nil {
			return err
		}
		text, _ := row[0].([]byte)
		err = index(text, number, func(r posting) error {
			return c.exec(`INSERT INTO held_posting VALUES (?, ?, ?, ?)`, r.key, r.sortKey, r.kind, number)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// idRows is how many rows one statement of indexIDs inserts, and idPart how many are sorted at
// a time: neighbours then share the way down to their page.
const (
	idRows = 16
	idPart = 1 << 18
)

// indexIDs fills table event_id from the index by time, which is much shorter than the events.
func indexIDs(c *conn) error {
	keys, err := c.keyring()
	if err != nil {
		return err
	}
	type row struct {
		key     []byte
		at, seq int64
	}
	var part []row
	flush := func() error {
		slices.SortFunc(part, func(a, b row) int { return bytes.Compare(a.key, b.key) })
		for some := range slices.Chunk(part, idRows) {
			var args []driver.Value
			for _, r := range some {
				args = append(args, r.key, r.at, r.seq)
			}
			const sql = `INSERT INTO event_id VALUES (?, ?, ?)`
			if err := c.exec(sql+strings.Repeat(", (?, ?, ?)", len(some)-1), args...); err != nil {
				return err
			}
		}
		part = part[:0]
		return nil
	}
	const sql = `SELECT place FROM posting WHERE key = ? AND kind = 0`
	err = c.each(context.Background(), sql, list(keyTime), func(r []driver.Value) error {
		sortKey, _ := r[0].([]byte)
		if len(sortKey) != longSortKey {
			return errSortKeys
		}
		at := parseSortKey(sortKey)
		if part = append(part, row{keys.id(idOf(sortKey)), at.at, at.seq}); len(part) == idPart {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// indexWords adds the index rows of the words of stored events, but for those that are still in a
// memtable.
func indexWords(c *conn) error {
	keys, err := c.keyring()
	if err != nil {
		return err
	}
	row, err := c.first(`SELECT ` + mergeColumns)
	if err != nil {
		return err
	}
	merged := scanMerge(row)
	var part []posting
	flush := func() error {
		slices.SortFunc(part, posting.compare)
		err := c.insertPostings(part)
		part = part[:0]
		return err
	}
	for _, kind := range host.SearchedKinds() {
		err := c.eachOfKind(kind, func(seq int64, text []byte) error {
			e, err := parseRow(text)
			if err != nil {
				return nil // Check reports it
			}
			for _, r := range keys.wordPostings(nil, e, seq) {
				if seq <= merged.through(r.key) {
					part = append(part, r)
				}
			}
			if len(part) >= idPart {
				return flush()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return flush()
}

// eachOfKind calls yield with the stored events of a kind.
func (c *conn) eachOfKind(kind host.Kind, yield func(seq int64, text []byte) error) error {
	for last := []byte{}; ; {
		var sortKeys [][]byte
		const sql = `SELECT place FROM posting WHERE key = ? AND kind = ? AND place > ? ORDER BY place LIMIT ?`
		err := c.each(context.Background(), sql, list(keyKind, int64(kind), last, int64(fetchRows)), func(row []driver.Value) error {
			at, _ := row[0].([]byte)
			sortKeys = append(sortKeys, bytes.Clone(at))
			return nil
		})
		if err != nil || len(sortKeys) == 0 {
			return err
		}
		for _, last = range sortKeys {
			seq := parseSortKey(last).seq
			row, err := c.first(`SELECT json FROM event WHERE seq = ?`, seq)
			if err != nil {
				return err
			}
			if row == nil {
				continue
			}
			text, _ := row[0].([]byte)
			if err := yield(seq, text); err != nil {
				return err
			}
		}
	}
}
