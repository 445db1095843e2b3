package store

import (
	"database/sql/driver"
	"slices"
	"strings"
)

// postingRows is the most index rows that one statement inserts.
const postingRows = 12

// insertPostings has the statement that inserts n rows into posting at index n.
var insertPostings = func() (sql [postingRows + 1]string) {
	for n := 1; n <= postingRows; n++ {
		sql[n] = "INSERT INTO posting VALUES (?, ?, ?)" + strings.Repeat(", (?, ?, ?)", n-1)
	}
	return sql
}()

// index writes the index rows of the events put since the last time that are not for the
// memtable.
func (tx *Tx) index() error {
	rows := tx.w.pending
	tx.w.pending = rows[:0]
	slices.SortFunc(rows, posting.compare)
	return tx.w.conn.insertPostings(rows)
}

// insertPostings inserts rows, which are in their order in the table: neighbours then share
// the way down to their page.
func (c *conn) insertPostings(rows []posting) error {
	var args [3 * postingRows]driver.Value
	for len(rows) > 0 {
		n := min(len(rows), postingRows)
		for i, r := range rows[:n] {
			args[3*i], args[3*i+1], args[3*i+2] = r.key, r.kind, r.sortKey
		}
		if err := c.exec(insertPostings[n], args[:3*n]...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
