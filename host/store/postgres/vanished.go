package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// The requests to vanish, as package semantics reads and writes them.

// Vanish notes a request to vanish: see [semantics.Vanish].
func (tx *Tx) Vanish(v *host.VanishRequest) (out host.Outcome, err error) {
	if err = tx.ready(); err == nil {
		err = contained(tx, func() (err error) {
			out, err = semantics.Vanish(rows{tx}, v)
			return err
		})
		if err != nil {
			tx.failed = err
		}
	}
	if err != nil {
		return host.Outcome{}, fmt.Errorf("note a request to vanish: %w", err)
	}
	return out, nil
}

// VanishedTotal returns how many authors have asked to vanish.
func (r rows) VanishedTotal() int64 { return r.tx.total.Vanished }

// selectVanished reads the columns of a [host.VanishRequest].
const selectVanished = `SELECT number, pubkey, until, id, json FROM vanished WHERE `

func scanVanished(row pgx.CollectableRow) (v host.VanishRequest, err error) {
	var pubkey, id []byte
	err = row.Scan(&v.Number, &pubkey, &v.Until, &id, &v.JSON)
	copy(v.PubKey[:], pubkey)
	copy(v.ID[:], id)
	return v, err
}

// keyBytes returns the keys as a parameter.
func keyBytes(keys []host.PubKey) [][]byte {
	list := make([][]byte, len(keys))
	for i := range keys {
		list[i] = keys[i][:]
	}
	return list
}

// VanishedOf returns the requests of these authors.
func (r rows) VanishedOf(authors []host.PubKey) ([]host.VanishRequest, error) {
	ctx, cancel := call()
	defer cancel()
	found, err := r.tx.s.conn.Query(ctx, selectVanished+`pubkey = ANY($1)`, keyBytes(authors))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, scanVanished)
}

// InsertVanished adds a request with the next number, in the place of an earlier one of its author.
func (r rows) InsertVanished(v *host.VanishRequest, limit int64) error {
	tx := r.tx
	var number int64
	if _, err := tx.row(`SELECT coalesce(max(number), 0) + 1 FROM vanished`, nil, &number); err != nil {
		return err
	}
	n, err := tx.exec(`DELETE FROM vanished WHERE pubkey = $1`, v.PubKey[:])
	if err != nil {
		return err
	}
	tx.work++
	tx.total.Vanished += 1 - n
	if _, err := tx.exec(`INSERT INTO vanished VALUES ($1, $2, $3, $4, $5)`, number, v.PubKey[:], v.Until, v.ID[:], v.JSON); err != nil || v.JSON != nil {
		return err
	}
	n, err = tx.exec(`
		DELETE FROM vanished WHERE number <= (SELECT number FROM vanished WHERE json IS NULL ORDER BY number DESC LIMIT 1 OFFSET $1) AND json IS NULL`, limit)
	tx.total.Vanished -= n
	return err
}

// VanishedAfter returns requests to vanish with higher numbers than one, at most limit, in the order
// of numbers.
func (s *Store) VanishedAfter(ctx context.Context, number int64, limit int) (found []host.VanishRequest, err error) {
	err = s.each(ctx, metrics.Moderation, selectVanished+`number > $1 ORDER BY number LIMIT $2`, []any{number, limit}, func(rows pgx.Rows) error {
		v, err := scanVanished(rows)
		found = append(found, v)
		return err
	})
	return found, err
}

// HiddenOf returns hidden events of an author, or of a kind if the author is nil, with higher numbers
// than one, at most limit, in the order of numbers.
func (s *Store) HiddenOf(ctx context.Context, author *host.PubKey, kind host.Kind, number int64, limit int) ([]semantics.Hidden, error) {
	if author != nil {
		return s.hidden(ctx, `pubkey = $1 AND number > $2 ORDER BY number LIMIT $3`, author[:], number, limit)
	}
	return s.hidden(ctx, `kind = $1 AND number > $2 ORDER BY number LIMIT $3`, int32(kind), number, limit)
}
