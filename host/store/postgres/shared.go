package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

const (
	// turnClass is the upper half of the keys of the locks under which transactions of
	// events take turns, one for each schema. It ends with the transaction.
	turnClass = lockClass + 1

	// heartbeat is how often a process says that it lives. After deadAfter without a heartbeat,
	// the others write nothing for it any more, and it finds a gap when it comes back.
	heartbeat = 5 * time.Second
	deadAfter = 30 * time.Second

	// forgetAfter is when the row of a process that has ended without a word goes.
	forgetAfter = time.Hour

	// logBytes is how much of table log is read in one step, one row at least.
	logBytes = 16 << 20
)

// position is what this process knows of the commits of all.
type position struct {
	commits int64  // up to this one
	token   []byte // of that one
	seq     int64  // the highest seq by then
}

// totals is what table total says.
type totals struct {
	position
	semantics.Total
	removed, expires, due int64
	plugins               int64
	moderation            int64 // number of the last row of the moderation log
}

// catchUp reads the log together with total, in one statement, so that both are of the same
// moment. $1 is what is known, $2 how many bytes at most.
const catchUp = `
	SELECT t.commits, t.token, t.seq, t.events, t.bytes, t.held, t.held_bytes, t.hidden, t.hidden_bytes, t.withheld, t.vanished, t.removed, t.expires, t.due, t.plugins, t.moderation, l.n, l.writer, l.before, l.token, l.changes
	FROM total t LEFT JOIN LATERAL (
		SELECT * FROM (
			SELECT g.*, sum(octet_length(g.changes)) OVER (ORDER BY g.n) - octet_length(g.changes) AS bytes
			FROM log g WHERE g.n > $1 AND g.n <= t.commits ORDER BY g.n
		) w WHERE w.bytes < $2 ORDER BY w.n
	) l ON true ORDER BY l.n`

// entry is a row of table log.
type entry struct {
	n, writer     *int64
	before, token []byte
	changes       changes
}

// tail is a part of the log, and the total of the same moment.
type tail struct {
	totals
	entries []entry
}

func (t *tail) scan(rows pgx.Rows) error {
	var e entry
	err := rows.Scan(&t.commits, &t.token, &t.Seq, &t.Events, &t.Bytes, &t.Held, &t.HeldBytes, &t.Hidden, &t.HiddenBytes, &t.Withheld, &t.Vanished, &t.removed, &t.expires, &t.due, &t.plugins, &t.moderation, &e.n, &e.writer, &e.before, &e.token, &e.changes)
	if err == nil && e.n != nil {
		t.entries = append(t.entries, e)
	}
	return err
}

// Changed receives after others may have committed something, see [Store.CatchUp].
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Alone reports whether no other process writes to the database: a new one is noticed
// within a moment.
func (s *Store) Alone() bool { return s.alone.Load() }

// Commits returns how many commits of all are known here.
func (s *Store) Commits() int64 { return s.readUpTo.Load() }

// CatchUp yields what others have committed and was not yielded before, in the order of
// commits. yield must not wait, and must not call the store.
func (s *Store) CatchUp(yield func(host.Commit)) error {
	if err := s.lock(); err != nil {
		return fmt.Errorf("read what others have committed: %w", err)
	}
	defer s.writing.Unlock()
	for {
		var t tail
		if err := s.each(context.Background(), metrics.Log, catchUp, []any{s.known.commits, int64(logBytes)}, t.scan); err != nil {
			return err
		}
		more, err := s.follow(&t, yield)
		if errors.Is(err, errGap) {
			more, err = false, s.skip(&t.totals, yield)
		}
		if err != nil || !more {
			return err
		}
	}
}

// errGap says that the log has not got all that was committed.
var errGap = errors.New("the log has a gap")

// follow yields what a part of the log has, and reports whether there is more. REQUIRES:
// s.writing.
func (s *Store) follow(t *tail, yield func(host.Commit)) (more bool, err error) {
	if t.commits < s.known.commits {
		return false, errGap
	}
	for i := range t.entries {
		e := &t.entries[i]
		if *e.n != s.known.commits+1 || string(e.before) != string(s.known.token) {
			return false, errGap
		}
		c, err := e.changes.commit()
		if err != nil {
			s.log.Error("what another Talon has committed cannot be read", "err", err)
			return false, errGap
		}
		if *e.writer != s.writer.Load() {
			yield(c)
		}
		s.known.commits, s.known.token = *e.n, e.token
		s.readUpTo.Store(*e.n)
		for _, p := range c.Published {
			s.known.seq = max(s.known.seq, p.Seq)
		}
	}
	if s.known.commits < t.commits {
		if len(t.entries) == 0 {
			return false, errGap
		}
		return true, nil
	}
	if string(t.token) != string(s.known.token) {
		return false, errGap
	}
	if err := s.switched(&t.totals, yield); err != nil {
		return false, err
	}
	s.note(&t.totals)
	return false, nil
}

// note makes what table total says that which is kept in memory. REQUIRES: s.writing.
func (s *Store) note(m *totals) {
	s.known = position{m.commits, m.token, m.Seq}
	s.readUpTo.Store(m.commits)
	total := m.Total
	s.total.Store(&total)
	s.removedTotal.Store(m.removed)
	s.expiry.Store(m.expires)
	s.heldDue.Store(m.due)
	s.moderation = m.moderation
	s.confirmed.Store(time.Now().UnixNano())
}

// skip continues after a gap in the log: it yields the gap, and the events that have come
// since and are still there. REQUIRES: s.writing.
func (s *Store) skip(m *totals, yield func(host.Commit)) error {
	s.log.Warn("what others have committed meanwhile is not known in full: reading it from the events", "commits", m.commits-s.known.commits)
	last := s.known.seq
	yield(host.Commit{Gap: true})
	const sql = `
		SELECT p.seq, p.json, p.audience FROM (
			SELECT e.*, sum(octet_length(e.json)) OVER (ORDER BY e.seq) - octet_length(e.json) AS before
			FROM (SELECT seq, json, audience FROM event WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3) e
		) p WHERE p.before < $4 ORDER BY p.seq`
	for {
		var c host.Commit
		n := 0
		err := s.each(context.Background(), metrics.Log, sql, []any{last, m.Seq, fetchRows, int64(fetchBytes)}, func(rows pgx.Rows) error {
			var json, audience []byte
			if err := rows.Scan(&last, &json, &audience); err != nil {
				return err
			}
			n++
			e, err := parseEvent(slices.Clip(json), audience)
			if err != nil {
				s.log.Error("read a damaged event", "seq", last, "err", err)
				return nil
			}
			c.Published = append(c.Published, host.Published{Event: e, Seq: last})
			return nil
		})
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		yield(c)
		s.known.seq = last
	}
	if err := s.switched(m, yield); err != nil {
		return err
	}
	s.note(m)
	return nil
}

// BeginAfter starts a transaction as Begin does, and yields, as CatchUp does, what others
// have committed before it. Nobody else commits anything until it has ended. upcoming may be
// nil; it returns events that are likely to be put or held next, the soonest first, so that
// they are looked up together.
func (s *Store) BeginAfter(yield func(host.Commit), upcoming func(limit int) []*host.Event) (*Tx, error) {
	if err := s.lock(); err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	tx := &Tx{
		s: s, changes: changes{}, ids: map[host.ID]struct{}{}, addresses: map[string]struct{}{},
		upcoming: upcoming, looked: map[host.ID]*semantics.Known{},
		usage: semantics.UsageChanges{},
	}
	err := contained(tx, func() error {
		for {
			// A new connection prepares statements, and so locks tables, before it has the turn.
			err := s.retry(func(ctx context.Context) error { return tx.begin(ctx, yield) })
			if !deadlocked(err) {
				return err
			}
		}
	})
	if err != nil {
		if tx.panicked {
			s.closeWriter()
		}
		s.writing.Unlock()
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return tx, nil
}

// begin takes the turn, and reads what is known then.
func (tx *Tx) begin(ctx context.Context, yield func(host.Commit)) error {
	s := tx.s
	for {
		var t tail
		var b pgx.Batch
		b.Queue(`BEGIN`)
		b.Queue(`SELECT pg_advisory_xact_lock($1)`, s.turnKey)
		b.Queue(`SELECT count(*) FROM writer WHERE id <> $1 AND alive > clock_timestamp() - $2::interval`, s.writer.Load(), deadAfter).QueryRow(func(row pgx.Row) error { return row.Scan(&tx.others) })
		b.Queue(catchUp, s.known.commits, int64(logBytes)).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				if err := t.scan(rows); err != nil {
					return err
				}
			}
			return rows.Err()
		})
		if err := s.conn.SendBatch(ctx, &b).Close(); err != nil {
			return errors.Join(err, s.undo())
		}
		more, err := s.follow(&t, yield)
		if err == nil && !more {
			if tx.others > 0 {
				s.alone.Store(false)
			}
			tx.total, tx.removed, tx.moderation = t.Total, t.removed, t.moderation
			return nil
		}
		// The rest is read without the turn.
		if err := s.undo(); err != nil {
			return err
		}
		if errors.Is(err, errGap) {
			err = s.skip(&t.totals, yield)
		}
		if err != nil {
			return err
		}
		if s.conn == nil {
			return io.ErrUnexpectedEOF
		}
	}
}

// Publish sends an ephemeral event to the other processes, if there are any.
func (tx *Tx) Publish(e *host.Event) {
	if tx.others > 0 {
		tx.changes.event(changeEphemeral, 0, e)
	}
}

// NotifyGitData notifies the other processes that git data has come.
func (tx *Tx) NotifyGitData() {
	if tx.others > 0 {
		tx.changes.add(changeArrived, 0, nil)
	}
}

// join makes this process one of those who write, on a new connection, and returns the
// token of its last commit. It waits for a transaction of the connection before. REQUIRES:
// s.writing.
func (s *Store) join(ctx context.Context, c *pgx.Conn) (token []byte, err error) {
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, s.turnKey); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, `UPDATE writer SET alive = clock_timestamp() WHERE id = $1 RETURNING token`, s.writer.Load()).Scan(&token)
		if errors.Is(err, pgx.ErrNoRows) {
			var id int64
			err = tx.QueryRow(ctx, `INSERT INTO writer (token, read) SELECT '', commits FROM total RETURNING id`).Scan(&id)
			s.writer.Store(id)
		}
		if err == nil && s.known.token == nil {
			var m totals
			const sql = `SELECT commits, token, seq, events, bytes, held, held_bytes, hidden, hidden_bytes, withheld, vanished, removed, expires, due, plugins, moderation FROM total`
			err = tx.QueryRow(ctx, sql).Scan(&m.commits, &m.token, &m.Seq, &m.Events, &m.Bytes, &m.Held, &m.HeldBytes, &m.Hidden, &m.HiddenBytes, &m.Withheld, &m.Vanished, &m.removed, &m.expires, &m.due, &m.plugins, &m.moderation)
			s.plugins = m.plugins
			s.note(&m)
		}
		if err == nil {
			_, err = tx.Exec(ctx, `SELECT pg_notify($1, $2)`, s.channel(), joined)
		}
		return err
	})
	return token, err
}

// joined is what a notification says of a process that begins to write. Others have the
// number of who has committed something.
const joined = "joined"

func (s *Store) channel() string { return fmt.Sprintf("talon_%d", uint32(s.turnKey)) }

// listen waits for what others commit until the store is closed, and does for the log and
// table writer what time brings.
func (s *Store) listen(ctx context.Context, cfg *pgx.ConnConfig) {
	defer close(s.listened)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := pgx.ConnectConfig(ctx, cfg)
		if err == nil {
			if err = s.listenOn(ctx, c, func() { wait = 10 * time.Millisecond }); err != nil && ctx.Err() == nil {
				s.log.Warn("connection to the database that listens is lost", "err", cause(err))
			}
			closing, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = c.Close(closing)
			cancel()
		}
		// From here until the connection is back, notifications are lost.
		s.alone.Store(false)
		s.reread.Store(true)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (s *Store) listenOn(ctx context.Context, c *pgx.Conn, ok func()) error {
	if _, err := c.Exec(ctx, `LISTEN `+s.channel()); err != nil {
		return err
	}
	for {
		if err := s.heartbeat(ctx, c); err != nil {
			return err
		}
		ok()
		s.wake() // what has come before it listened
		wake(s.proposed)
		wake(s.saved)
		for until := time.Now().Add(heartbeat); ; {
			waiting, cancel := context.WithDeadline(ctx, until)
			n, err := c.WaitForNotification(waiting)
			cancel()
			if err != nil {
				if ctx.Err() == nil && waiting.Err() != nil && !c.IsClosed() {
					break
				}
				return err
			}
			switch n.Payload {
			case fmt.Sprint(s.writer.Load()):
			case joined:
				s.others.Add(1) // or not; beat counts
				s.alone.Store(false)
			case proposed:
				wake(s.proposed)
			case savedState:
				wake(s.saved)
			default:
				s.wake()
			}
		}
	}
}

func (s *Store) wake() { wake(s.changed) }

func wake(waiting chan<- struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}

// heartbeat says that this process lives, and trims the log: of what all who live have read,
// and of what is older than who has fallen behind may still want.
func (s *Store) heartbeat(ctx context.Context, c *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var others int64
	var b pgx.Batch
	b.Queue(`
		INSERT INTO writer (id, token, read) OVERRIDING SYSTEM VALUE VALUES ($1, '', $2)
		ON CONFLICT (id) DO UPDATE SET alive = clock_timestamp(), read = greatest(writer.read, $2)`, s.writer.Load(), s.readUpTo.Load())
	b.Queue(`DELETE FROM writer WHERE alive < clock_timestamp() - $1::interval`, forgetAfter)
	b.Queue(`
		DELETE FROM log WHERE n <= (SELECT min(read) FROM writer WHERE alive > clock_timestamp() - $1::interval) OR at < clock_timestamp() - $1::interval`, deadAfter)
	b.Queue(`SELECT count(*) FROM writer WHERE id <> $1 AND alive > clock_timestamp() - $2::interval`, s.writer.Load(), deadAfter).QueryRow(func(row pgx.Row) error { return row.Scan(&others) })
	if err := c.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	s.others.Store(others)
	s.alone.Store(others == 0)
	return nil
}

// deregister takes this process from those who write. REQUIRES: s.writing.
func (s *Store) deregister() {
	if s.conn == nil || s.writer.Load() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := s.conn.Exec(ctx, `DELETE FROM writer WHERE id = $1`, s.writer.Load()); err != nil {
		s.log.Debug("leave the database", "err", err)
	}
}

// deadlocked reports whether the server ended a statement for it waited in a circle.
func deadlocked(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && slices.Contains([]string{"40P01", "40001"}, said.Code)
}
