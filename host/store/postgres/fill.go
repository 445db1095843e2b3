package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/wire"
)

// indexWords adds the index rows of the words of stored events.
func indexWords(ctx context.Context, tx pgx.Tx) error {
	var keys keyring
	var secret []byte
	if err := tx.QueryRow(ctx, `SELECT secret FROM meta`).Scan(&secret); err != nil {
		return err
	}
	copy(keys.secret[:], secret)
	var kinds []int32
	for _, k := range host.SearchedKinds() {
		kinds = append(kinds, int32(k))
	}
	type row struct {
		seq  int64
		json []byte
	}
	for last := int64(0); ; {
		found, err := tx.Query(ctx, `SELECT seq, json FROM event WHERE kind = ANY($1::int[]) AND seq > $2 ORDER BY seq LIMIT $3`, kinds, last, 4*fetchRows)
		if err != nil {
			return err
		}
		part, err := pgx.CollectRows(found, func(x pgx.CollectableRow) (r row, err error) { return r, x.Scan(&r.seq, &r.json) })
		if err != nil || len(part) == 0 {
			return err
		}
		var words tagRows
		for _, r := range part {
			last = r.seq
			if e, err := wire.ParseEvent(r.json); err == nil { // else Check reports it
				words.addWords(&keys, e, r.seq)
			}
		}
		if len(words.key) == 0 {
			continue
		}
		if _, err := tx.Exec(ctx, insertTags(stored.tag), words.key, words.kind, words.sortKey, words.seq, words.expires); err != nil {
			return err
		}
	}
}
