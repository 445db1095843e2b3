package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"talon/host"
	"talon/host/contain"
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
	s             *Store
	total         semantics.Total
	moderation    int64   // number of the last row of the moderation log
	removed       int64   // of table total, when the transaction began
	others        int64   // processes that write as well
	changes       changes // for them
	work          int     // events put or removed
	removedTotal  int64   // events removed
	expiryChanged bool    // what expires has changed
	holdChanged   bool    // when something in purgatory is due has changed
	usage         semantics.UsageChanges
	failed        error // the first error
	done          bool
	panicked      bool // the connection may be in the middle of an exchange

	// Events that were put and are not inserted yet, and the addresses of some.
	fresh     eventRows
	tags      tagRows
	ids       map[host.ID]struct{}
	addresses map[string]struct{}
	bytes     int
	old       []int64 // seq of versions that they replace
	oldTags   tagRows // and the tags of these

	upcoming func(limit int) []*host.Event // events that may be put next; may be nil
	looked   map[host.ID]*semantics.Known  // what is known of some of them

	texts []text // what Commit makes visible
}

// text is the JSON of a row.
type text struct {
	seq  int64
	json []byte
}

// eventRows are rows of table event, a slice for each column.
type eventRows struct {
	seq, createdAt                 []int64
	id, pubkey, sortKey, key, json [][]byte
	audience                       [][]byte
	kind                           []int32
	expires                        []*int64
}

// Begin starts a transaction. It waits until the one before has ended, even one of another
// process. If the connection to the database is lost, Begin makes another.
func (s *Store) Begin() (*Tx, error) { return s.BeginAfter(func(host.Commit) {}, nil) }

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
		if err == nil || s.conn != nil && !s.conn.IsClosed() {
			return err
		}
		s.log.Warn("connection to the database is lost", "err", err)
		s.closeWriter()
	}
	if _, err := s.connect(ctx); err != nil {
		return away(err)
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
	if err := contained(tx, func() error { return tx.seal(token) }); err != nil {
		if tx.panicked {
			s.disconnect()
		}
		if err = tx.resolve(token, err); err != nil {
			tx.close()
			return fmt.Errorf("commit: %w", err)
		}
	}
	if contained(tx, tx.record) != nil {
		s.cache.Clear()
	}
	s.metrics.Commit.Observe(time.Since(began).Seconds())
	s.metrics.Batch.Observe(float64(tx.work))
	tx.close()
	return nil
}

// contained runs a part of a transaction. A panic there becomes an error, and the transaction is
// broken as after any other. Nobody knows then what the connection was doing, so the connection
// ends, and the server rolls back. Everything else that the transaction has changed is its own.
func contained(tx *Tx, f func() error) error {
	err := tx.s.panics.Run(f)
	tx.panicked = tx.panicked || contain.Panicked(err)
	return err
}

// disconnect ends the writing connection, so that it counts as lost. REQUIRES: s.writing, and there is
// one.
func (s *Store) disconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// record keeps the texts of a commit.
func (tx *Tx) record() error {
	for _, e := range tx.texts {
		tx.s.cache.Add(e.seq, e.json)
	}
	return nil
}

// seal writes what waits, sums up and commits, in one exchange.
func (tx *Tx) seal(token []byte) error {
	s := tx.s
	expires, due := s.expiry.Load(), s.heldDue.Load()
	var b pgx.Batch
	tx.insert(&b)
	commits := s.known.commits
	changed := tx.work > 0 || tx.expiryChanged || tx.holdChanged
	if changed || len(tx.changes) > 0 {
		commits++
		queueUsage(&b, tx.usage.Rows())
		t := tx.total
		const sql = `
			UPDATE total SET seq = $1, events = $2, bytes = $3, held = $4, held_bytes = $5, hidden = $6, hidden_bytes = $7,
				moderation = $8, token = $9, commits = $10, removed = $11, withheld = $12, vanished = $13, `
		args := []any{t.Seq, t.Events, t.Bytes, t.Held, t.HeldBytes, t.Hidden, t.HiddenBytes, tx.moderation, token, commits, tx.removed + tx.removedTotal, t.Withheld, t.Vanished}
		if tx.expiryChanged || tx.holdChanged {
			b.Queue(sql+`expires = least(`+nextExpiry+`, `+nextHidden+`), due = `+nextHeld+` RETURNING expires, due`, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&expires, &due) })
		} else {
			b.Queue(sql+`expires = $14, due = $15`, append(args, expires, due)...)
		}
		b.Queue(`UPDATE writer SET token = $1, read = $2, alive = clock_timestamp() WHERE id = $3`, token, s.known.commits, s.writer.Load())
		if tx.others > 0 {
			b.Queue(`INSERT INTO log (n, writer, before, token, changes) VALUES ($1, $2, $3, $4, $5)`, commits, s.writer.Load(), s.known.token, token, []byte(tx.changes))
			b.Queue(`SELECT pg_notify($1, $2)`, s.channel(), fmt.Sprint(s.writer.Load()))
		}
		if !changed {
			// A crash may lose the transaction, since nobody was promised it.
			b.Queue(`SET LOCAL synchronous_commit = off`)
		}
	} else {
		token = s.known.token
	}
	var tag pgconn.CommandTag
	b.Queue(`COMMIT`).Exec(func(t pgconn.CommandTag) error {
		tag = t
		return nil
	})
	ctx, cancel := call()
	defer cancel()
	if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("the server answered %s", tag)
	}
	s.note(&totals{position{commits: commits, token: token}, tx.total, tx.removed + tx.removedTotal, expires, due, s.plugins, tx.moderation})
	return nil
}

// resolve finds out what became of a commit that failed with an error, which it returns if
// nothing was stored. After nil, everything was.
func (tx *Tx) resolve(token []byte, failed error) error {
	s := tx.s
	if !s.conn.IsClosed() {
		return errors.Join(failed, s.undo())
	}
	s.closeWriter()
	s.log.Warn("connection to the database is lost during a commit", "err", failed)
	ctx, cancel := context.WithTimeout(context.Background(), resolveTime)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		last, err := s.connect(ctx)
		switch {
		case err == nil && bytes.Equal(last, token):
			s.log.Info("the commit holds")
			// When something is due is found out with the next transaction.
			s.note(&totals{position{commits: s.known.commits + 1, token: token}, tx.total, tx.removed + tx.removedTotal, s.expiry.Load(), s.heldDue.Load(), s.plugins, tx.moderation})
			return nil
		case err == nil && last != nil:
			s.log.Info("nothing was committed")
			return failed
		case err == nil:
			return fmt.Errorf("the connection to the database was lost for so long that whether it has committed is not known: %w", failed)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the connection to the database is lost, and whether it has committed is not known: %w", errors.Join(failed, err))
		case <-time.After(wait):
		}
	}
}

// insert queues what waits to be inserted, after what it replaces has gone.
func (tx *Tx) insert(b *pgx.Batch) {
	if len(tx.old) > 0 {
		b.Queue(`DELETE FROM event WHERE seq = ANY($1)`, tx.old)
		b.Queue(deleteTags("tag"), tx.oldTags.key, tx.oldTags.kind, tx.oldTags.sortKey)
	}
	if e := &tx.fresh; len(e.seq) > 0 {
		b.Queue(`
			INSERT INTO event (seq, id, pubkey, place, kind, created_at, expires, address, json, audience)
			SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bytea[], $5::int[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[], $10::bytea[])`,
			e.seq, e.id, e.pubkey, e.sortKey, e.kind, e.createdAt, e.expires, e.key, e.json, e.audience)
	}
	if t := &tx.tags; len(t.key) > 0 {
		b.Queue(insertTags("tag"), t.key, t.kind, t.sortKey, t.seq, t.expires)
	}
}

func insertTags(table string) string {
	return `INSERT INTO ` + table + ` SELECT * FROM unnest($1::bytea[], $2::int[], $3::bytea[], $4::bigint[], $5::bigint[])`
}

func deleteTags(table string) string {
	return `
		DELETE FROM ` + table + ` g USING unnest($1::bytea[], $2::int[], $3::bytea[]) AS x (key, kind, place)
		WHERE g.key = x.key AND g.kind = x.kind AND g.place = x.place`
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
	tx.old, tx.oldTags = nil, tagRows{}
	clear(tx.ids)
	clear(tx.addresses)
	clear(tx.looked)
	return nil
}

// exec runs a statement and returns how many rows it changed. It discards earlier lookups.
func (tx *Tx) exec(sql string, args ...any) (int64, error) {
	clear(tx.looked)
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

// goneColumns are what deleteReturning reads of rows that a statement deletes.
const goneColumns = `seq, json, pubkey, kind & 65535, audience`

// deleteReturning runs a statement that deletes rows of table event or held and returns their
// goneColumns, and takes their tags away too. Events that cannot be read any more are left out.
func (tx *Tx) deleteReturning(t tables, sql string, args ...any) ([]*host.Event, error) {
	type taken struct {
		seq    int64
		json   []byte
		pubkey []byte
		kind   int32
		who    []byte
	}
	ctx, cancel := call()
	defer cancel()
	rows, err := tx.s.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r taken, err error) {
		return r, row.Scan(&r.seq, &r.json, &r.pubkey, &r.kind, &r.who)
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	slices.SortFunc(all, func(a, b taken) int { return int(a.seq - b.seq) })
	var events []*host.Event
	var tags tagRows
	var damaged []int64
	clear(tx.looked)
	for _, r := range all {
		tx.gone(t, int64(len(r.json)))
		if t == held {
			r.who = nil // no index row says it
		} else if r.who != nil {
			tx.total.Withheld--
		}
		e, err := parseEvent(r.json, r.who)
		if err != nil {
			// One damaged row must not stop every batch that touches it.
			tx.s.log.Error("remove damaged event", "table", t.event, "seq", r.seq, "err", err)
			damaged = append(damaged, r.seq)
			if t == stored {
				tx.usage.RemoveRow(usageRow(r.pubkey, r.kind, r.json))
			}
			continue
		}
		events = append(events, e)
		if t == stored {
			tx.usage.Remove(e)
		}
		tags.add(&tx.s.keys, t, e, r.seq)
	}
	if len(tags.key) > 0 {
		_, err = tx.exec(deleteTags(t.tag), tags.key, tags.kind, tags.sortKey)
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
		tx.holdChanged = true
		tx.total.Held--
		tx.total.HeldBytes -= size
		return
	}
	tx.expiryChanged = true
	tx.removedTotal++
	tx.total.Events--
	tx.total.Bytes -= size
}

// Rollback undoes the transaction. After Commit it does nothing.
func (tx *Tx) Rollback() error {
	if tx.done {
		return nil
	}
	defer tx.close()
	if tx.panicked {
		tx.s.closeWriter() // the server rolls back what a connection leaves behind
		return nil
	}
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
		s.closeWriter()
	}
	return nil
}

func (tx *Tx) close() {
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

// changes are what a commit did, as a row of table log has it: for each change its sort,
// a number where it has one, the length of the event's JSON and the JSON. Numbers are
// uvarints.
type changes []byte

const (
	changeStored    = 's' // with its seq
	changeEphemeral = 'e'
	changeRemoved   = 'r'
	changeHeld      = 'h' // with its fate
	changeSynced    = 'y' // likewise, of an event that a relay sent

	changeAwaits       = 'q' // as changeHeld, of an event that a module holds
	changeSyncedAwaits = 'z' // likewise, of one that a relay sent
	changeArrived      = 'a' // no event
	changeAudience     = 'w' // the audience of the event that follows, in the place of its JSON
)

var errChanges = errors.New("a row of table log is damaged")

func (c *changes) add(sort byte, number uint64, json []byte) {
	b := append(*c, sort)
	b = binary.AppendUvarint(b, number)
	b = binary.AppendUvarint(b, uint64(len(json)))
	*c = append(b, json...)
}

// event adds a change of an event with its audience.
func (c *changes) event(sort byte, number uint64, e *host.Event) {
	if e.Audience != nil {
		c.add(changeAudience, 0, e.Audience.Encode())
	}
	c.add(sort, number, e.JSON)
}

func (c *changes) released(list []host.Released) {
	for _, r := range list {
		if r.Status == host.StatusReleased {
			c.event(changeStored, uint64(r.Seq), r.Event)
		}
	}
}

func (c *changes) removed(events []*host.Event) {
	for _, e := range events {
		c.event(changeRemoved, 0, e)
	}
}

func (c *changes) held(list []host.HeldChange) {
	for _, h := range list {
		sort := byte(changeHeld)
		switch {
		case h.Awaits && h.Synced:
			sort = changeSyncedAwaits
		case h.Awaits:
			sort = changeAwaits
		case h.Synced:
			sort = changeSynced
		}
		c.event(sort, uint64(h.Status), h.Event)
	}
}

// commit returns what the changes say.
func (c changes) commit() (out host.Commit, err error) {
	var audience *host.Audience
	for b := []byte(c); len(b) > 0; {
		sort := b[0]
		number, n := binary.Uvarint(b[1:])
		if n <= 0 {
			return out, errChanges
		}
		b = b[1+n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return out, errChanges
		}
		json := b[n : n+int(size)]
		b = b[n+int(size):]
		switch sort {
		case changeArrived:
			out.Arrived = true
			continue
		case changeAudience:
			if audience, err = host.ParseAudience(json); err != nil {
				return out, errors.Join(errChanges, err)
			}
			continue
		}
		e, err := wire.ParseEvent(slices.Clip(json))
		if err != nil {
			return out, errors.Join(errChanges, err)
		}
		e.Audience, audience = audience, nil
		switch sort {
		case changeStored, changeEphemeral:
			before := slices.ContainsFunc(out.Removed, func(old *host.Event) bool { return old.ID == e.ID })
			out.Published = append(out.Published, host.Published{Event: e, Seq: int64(number), Changed: before})
		case changeRemoved:
			out.Removed = append(out.Removed, e)
		case changeHeld, changeSynced, changeAwaits, changeSyncedAwaits:
			if number >= uint64(host.HeldStatuses) {
				return out, errChanges
			}
			out.Held = append(out.Held, host.HeldChange{Event: e, Status: host.HeldStatus(number), Synced: sort == changeSynced || sort == changeSyncedAwaits, Awaits: sort == changeAwaits || sort == changeSyncedAwaits})
		default:
			return out, errChanges
		}
	}
	return out, nil
}
