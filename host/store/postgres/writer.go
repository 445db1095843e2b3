package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"talon/host"
	"talon/host/store/semantics"
	"talon/host/wire"
)

var errDone = errors.New("transaction has ended")

// flushBytes is how much JSON waits in memory to be inserted.
const flushBytes = 4 << 20

// Tx is the one open transaction. Nothing of it is visible to readers before Commit. It is
// for one goroutine, and ends with Commit or Rollback.
//
// After an error of any other method the transaction is broken: only Rollback is left. The
// store stays usable.
type Tx struct {
	s      *Store
	total  semantics.Total
	work   int   // events put or removed
	left   int64 // events removed
	dated  bool  // what expires has changed
	timed  bool  // when something in purgatory is due has changed
	failed error // the first error
	done   bool

	// Events that were put and are not inserted yet, and the addresses of some.
	fresh     eventRows
	tags      tagRows
	ids       map[host.ID]struct{}
	addresses map[string]struct{}
	bytes     int

	texts []text // what Commit makes visible
}

// text is the JSON of a row.
type text struct {
	seq  int64
	json []byte
}

// eventRows are rows of table event, a slice for each column.
type eventRows struct {
	seq, createdAt               []int64
	id, pubkey, place, key, json [][]byte
	kind                         []int32
	expires                      []*int64
}

// Begin starts a transaction. It waits until the one before has ended. Where the connection
// to the database is lost it makes another.
func (s *Store) Begin() (*Tx, error) {
	if err := s.lock(); err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	err := s.retry(func(ctx context.Context) error {
		_, err := s.conn.Exec(ctx, `BEGIN`)
		return err
	})
	if err != nil {
		s.writing.Unlock()
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return &Tx{s: s, total: *s.total.Load(), ids: map[host.ID]struct{}{}, addresses: map[string]struct{}{}}, nil
}

// lock takes the right to write.
func (s *Store) lock() error {
	if s.cfg == nil {
		return semantics.ErrReadOnly
	}
	s.writing.Lock()
	select {
	case <-s.closed:
		s.writing.Unlock()
		return semantics.ErrClosed
	default:
		return nil
	}
}

// retry runs what may be run twice, on a new connection if there is none or if it turns
// out that it was lost. REQUIRES: s.writing.
func (s *Store) retry(f func(ctx context.Context) error) error {
	ctx, cancel := call()
	defer cancel()
	if s.conn != nil {
		err := f(ctx)
		if err == nil || !s.conn.IsClosed() {
			return err
		}
		s.log.Warn("connection to the database is lost", "err", err)
		s.drop()
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	return f(ctx)
}

// call bounds one exchange with the server: a host that is gone says nothing.
func call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callTime)
}

// Commit makes the transaction durable and visible. After an error nothing of it is
// stored, unless the error says that this is not known.
func (tx *Tx) Commit() error {
	if tx.done {
		return fmt.Errorf("commit: %w", errDone)
	}
	if tx.failed != nil {
		return errors.Join(fmt.Errorf("commit after a failure: %w", tx.failed), tx.Rollback())
	}
	began := time.Now()
	s := tx.s
	token := make([]byte, 16)
	rand.Read(token)
	sealed, err := tx.seal(token)
	if err != nil {
		if err = tx.resolve(token, err); err != nil {
			tx.end()
			return fmt.Errorf("commit: %w", err)
		}
	} else {
		s.token = token
		s.expiry.Store(sealed.expiry)
		s.heldDue.Store(sealed.heldDue)
		s.total.Store(&tx.total)
	}
	s.left.Add(tx.left)
	for _, e := range tx.texts {
		s.texts.Add(e.seq, e.json)
	}
	s.metrics.commit.Observe(time.Since(began).Seconds())
	s.metrics.batch.Observe(float64(tx.work))
	tx.end()
	return nil
}

type sealed struct{ expiry, heldDue int64 }

// seal writes what waits, sums up and commits, in one exchange.
func (tx *Tx) seal(token []byte) (sealed, error) {
	s := tx.s
	now := sealed{s.expiry.Load(), s.heldDue.Load()}
	var b pgx.Batch
	tx.insert(&b)
	t := tx.total
	b.Queue(`UPDATE total SET seq = $1, events = $2, bytes = $3, held = $4, held_bytes = $5, token = $6`, t.Seq, t.Events, t.Bytes, t.Held, t.HeldBytes, token)
	if tx.dated || tx.timed {
		b.Queue(`SELECT ` + nextExpiry + `, ` + nextHeld).QueryRow(func(row pgx.Row) error { return row.Scan(&now.expiry, &now.heldDue) })
	}
	var tag pgconn.CommandTag
	b.Queue(`COMMIT`).Exec(func(t pgconn.CommandTag) error {
		tag = t
		return nil
	})
	ctx, cancel := call()
	defer cancel()
	if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
		return sealed{}, err
	}
	if tag.String() != "COMMIT" {
		return sealed{}, fmt.Errorf("the server answered %s", tag)
	}
	return now, nil
}

// resolve finds out what became of a commit that failed with an error, which it returns if
// nothing was stored. After nil, everything was.
func (tx *Tx) resolve(token []byte, failed error) error {
	s := tx.s
	if !s.conn.IsClosed() {
		return errors.Join(failed, s.undo())
	}
	s.drop()
	before := s.token
	s.unknown = token
	s.log.Warn("connection to the database is lost during a commit", "err", failed)
	ctx, cancel := context.WithTimeout(context.Background(), resolveTime)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := s.connect(ctx)
		switch {
		case err == nil && bytes.Equal(s.token, token):
			s.log.Info("the commit holds")
			return nil
		case err == nil && bytes.Equal(s.token, before):
			s.log.Info("nothing was committed")
			return failed
		case s.over != nil:
			return s.over
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the connection to the database is lost, and whether it has committed is not known: %w", errors.Join(failed, err))
		case <-time.After(wait):
		}
	}
}

// insert queues what waits to be inserted.
func (tx *Tx) insert(b *pgx.Batch) {
	if e := &tx.fresh; len(e.seq) > 0 {
		b.Queue(`
			INSERT INTO event (seq, id, pubkey, place, kind, created_at, expires, address, json)
			SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bytea[], $5::int[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[])`,
			e.seq, e.id, e.pubkey, e.place, e.kind, e.createdAt, e.expires, e.key, e.json)
	}
	if t := &tx.tags; len(t.key) > 0 {
		b.Queue(insertTags("tag"), t.key, t.kind, t.place, t.seq, t.expires)
	}
}

func insertTags(table string) string {
	return `INSERT INTO ` + table + ` SELECT * FROM unnest($1::bytea[], $2::int[], $3::bytea[], $4::bigint[], $5::bigint[])`
}

// flush inserts what waits, so that statements see it.
func (tx *Tx) flush() error {
	if len(tx.fresh.seq) == 0 {
		return nil
	}
	var b pgx.Batch
	tx.insert(&b)
	ctx, cancel := call()
	defer cancel()
	if err := tx.s.conn.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	tx.fresh, tx.tags, tx.bytes = eventRows{}, tagRows{}, 0
	clear(tx.ids)
	clear(tx.addresses)
	return nil
}

// exec runs a statement and returns how many rows it changed.
func (tx *Tx) exec(sql string, args ...any) (int64, error) {
	ctx, cancel := call()
	defer cancel()
	tag, err := tx.s.conn.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

// row reads one row. It reports whether there is one.
func (tx *Tx) row(sql string, args []any, into ...any) (bool, error) {
	ctx, cancel := call()
	defer cancel()
	err := tx.s.conn.QueryRow(ctx, sql, args...).Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// take runs a statement that deletes rows of table event or held and returns their seq and
// json, and takes their tags away too. Events that cannot be read any more are left out.
func (tx *Tx) take(t tables, sql string, args ...any) ([]*host.Event, error) {
	type taken struct {
		seq  int64
		json []byte
	}
	ctx, cancel := call()
	defer cancel()
	rows, err := tx.s.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r taken, err error) { return r, row.Scan(&r.seq, &r.json) })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	slices.SortFunc(all, func(a, b taken) int { return int(a.seq - b.seq) })
	var events []*host.Event
	var tags tagRows
	var damaged []int64
	for _, r := range all {
		tx.gone(t, int64(len(r.json)))
		e, err := wire.ParseEvent(r.json)
		if err != nil {
			// One damaged row must not stop every batch that touches it.
			tx.s.log.Error("remove damaged event", "table", t.event, "seq", r.seq, "err", err)
			damaged = append(damaged, r.seq)
			continue
		}
		events = append(events, e)
		tags.add(&tx.s.keys, e, r.seq)
	}
	if len(tags.key) > 0 {
		_, err = tx.exec(`
			DELETE FROM `+t.tag+` g USING unnest($1::bytea[], $2::int[], $3::bytea[]) AS x (key, kind, place)
			WHERE g.key = x.key AND g.kind = x.kind AND g.place = x.place`, tags.key, tags.kind, tags.place)
	}
	if err == nil && damaged != nil {
		_, err = tx.exec(`DELETE FROM `+t.tag+` WHERE seq = ANY($1)`, damaged)
	}
	return events, err
}

// gone books that a row was deleted.
func (tx *Tx) gone(t tables, size int64) {
	tx.work++
	if t == held {
		tx.timed = true
		tx.total.Held--
		tx.total.HeldBytes -= size
		return
	}
	tx.dated = true
	tx.left++
	tx.total.Events--
	tx.total.Bytes -= size
}

// Rollback undoes the transaction. After Commit it does nothing.
func (tx *Tx) Rollback() error {
	if tx.done {
		return nil
	}
	defer tx.end()
	if err := tx.s.undo(); err != nil {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// undo leaves the connection without a transaction, or ends it. REQUIRES: s.writing.
func (s *Store) undo() error {
	if s.conn == nil {
		return nil
	}
	ctx, cancel := call()
	defer cancel()
	if _, err := s.conn.Exec(ctx, `ROLLBACK`); err != nil {
		// The server rolls back what a connection leaves behind.
		s.drop()
	}
	return nil
}

func (tx *Tx) end() {
	tx.done = true
	tx.s.writing.Unlock()
}

// ready returns why the transaction cannot go on.
func (tx *Tx) ready() error {
	if tx.done {
		return errDone
	}
	return tx.failed
}
