package store

import (
	"context"
	"database/sql/driver"
)

// Export calls yield with the JSON of every stored event, oldest first: the
// reverse of the order of answers. What has expired but was not swept yet is
// among them. yield may wait, and its error ends Export and is returned as it
// is.
//
// It reads piece by piece, so that writers go on beside it for as long as it
// takes. An event that is stored meanwhile is among them or not.
func (s *Store) Export(ctx context.Context, yield func(json []byte) error) error {
	const sql = `SELECT place FROM posting WHERE key = ? AND kind = 0 AND place < ? ORDER BY place DESC LIMIT ?`
	last := under(0)
	for {
		var rows []int64
		err := s.use(ctx, opExport, func(r *reader) error {
			return r.each(context.Background(), sql, list(keyTime, last, int64(fetchRows)), func(row []driver.Value) error {
				b, _ := row[0].([]byte)
				if len(b) != longPlace {
					return errPlaces
				}
				last = b
				rows = append(rows, parsePlace(b).seq)
				return nil
			})
		})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		err = s.Fetch(ctx, rows, func(_ int64, json []byte) error { return yield(json) })
		if err != nil {
			return err
		}
	}
}
