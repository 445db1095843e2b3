package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"talon/host"
	"talon/host/store/semantics"
)

// layout is what a program knows of the schema.
type layout struct {
	steps []string // that lead from an empty schema to the present one; step i makes version i+1

	// oldest has, for each step, the version of the oldest program that can work with what
	// the step makes: a lower one than the step's own if that adds what such a program does
	// not miss. Programs that are older must have ended before the step, and do not start
	// after it; the others stay and may come.
	oldest []int

	// fills do what statements alone cannot, by the number of the step: they run after its
	// statements, in the same transaction.
	fills map[int]func(ctx context.Context, tx pgx.Tx) error
}

// present is what this program knows.
var present = layout{steps, []int{1, 2, 2, 2, 2, 6, 7, 8, 8, 10, 11}, map[int]func(context.Context, pgx.Tx) error{5: indexWords, 6: countUsage}}

// version is the schema version of the program.
func (l *layout) version() int { return len(l.steps) }

// steps lead from each schema to the next. A released step never changes, and another step
// follows it. Two releases remove something: the first no longer uses it. The second removes it,
// and names the first as the oldest release that can work with the result.
//
// Column place sorts like an answer, newest first, ties by lowest id: it is created_at,
// all bits inverted, and the id. Columns created_at, expires, since and due are unix
// seconds. Column address is the key of what NIP-01 calls an address, NULL for a kind
// without one. Tables held and held_tag serve purgatory as event and tag serve what is
// stored, with the same columns for the same statements.
var steps = []string{`
CREATE TABLE total (
	one          boolean PRIMARY KEY CHECK (one),
	seq          bigint NOT NULL, -- the highest ever given
	events       bigint NOT NULL, -- rows in event
	bytes        bigint NOT NULL, -- of their json
	held         bigint NOT NULL, -- rows in held
	held_bytes   bigint NOT NULL, -- of their json
	placeholders bigint NOT NULL, -- rows in placeholder
	token        bytea  NOT NULL  -- of the last commit that changed any of these but placeholders
) WITH (fillfactor = 10);
INSERT INTO total VALUES (true, 0, 0, 0, 0, 0, 0, '');

CREATE TABLE event (
	seq        bigint PRIMARY KEY, -- in the order of commits
	id         bytea  NOT NULL,
	pubkey     bytea  NOT NULL,
	place      bytea  NOT NULL,
	kind       int    NOT NULL,
	created_at bigint NOT NULL,
	expires    bigint,
	address    bytea,
	json       bytea  NOT NULL -- as it is sent
);
CREATE UNIQUE INDEX event_id ON event (id);
CREATE UNIQUE INDEX event_address ON event (address) WHERE address IS NOT NULL;
CREATE INDEX event_time ON event (place);
CREATE INDEX event_kind ON event (kind, place);
CREATE INDEX event_author ON event (pubkey, kind, place);
CREATE INDEX event_expires ON event (expires, seq) WHERE expires IS NOT NULL;

CREATE TABLE tag (
	key     bytea  NOT NULL,
	kind    int    NOT NULL,
	place   bytea  NOT NULL,
	seq     bigint NOT NULL,
	expires bigint
);
CREATE UNIQUE INDEX tag_key ON tag (key, kind, place) INCLUDE (seq, expires);

CREATE TABLE deleted_id (
	id     bytea NOT NULL,
	pubkey bytea NOT NULL, -- of who deleted it
	PRIMARY KEY (id, pubkey)
);
CREATE TABLE deleted_address (
	key   bytea  PRIMARY KEY,
	until bigint NOT NULL -- created_at of the newest deletion
);

CREATE TABLE held (
	seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order in which they came
	id         bytea   NOT NULL,
	pubkey     bytea   NOT NULL,
	place      bytea   NOT NULL,
	kind       int     NOT NULL,
	created_at bigint  NOT NULL,
	expires    bigint,
	address    bytea,
	json       bytea   NOT NULL,
	since      bigint  NOT NULL, -- it came, or its time was started again
	due        bigint  NOT NULL, -- when it becomes dormant or goes
	dormant    boolean NOT NULL, -- an announcement whose repository has gone
	reason     bytea   NOT NULL  -- as its sender was told
);
CREATE UNIQUE INDEX held_id ON held (id);
CREATE INDEX held_address ON held (address) WHERE address IS NOT NULL;
CREATE INDEX held_time ON held (place);
CREATE INDEX held_kind ON held (kind, place);
CREATE INDEX held_author ON held (pubkey, kind, place);
CREATE INDEX held_due ON held (dormant, due);

CREATE TABLE held_tag (
	key     bytea  NOT NULL,
	kind    int    NOT NULL,
	place   bytea  NOT NULL,
	seq     bigint NOT NULL,
	expires bigint
);
CREATE UNIQUE INDEX held_tag_key ON held_tag (key, kind, place) INCLUDE (seq, expires);

CREATE TABLE held_gone (
	id    bytea  PRIMARY KEY, -- of an announcement that waited in vain
	until bigint NOT NULL     -- copies from sync are refused
);
CREATE INDEX held_gone_until ON held_gone (until);

CREATE TABLE placeholder (
	repo  bytea  NOT NULL, -- the caller's own key, by its hash in the index
	hash  bytea  NOT NULL,
	id    bytea  NOT NULL CHECK (octet_length(id) = 32),
	since bigint NOT NULL
);
CREATE UNIQUE INDEX placeholder_repo ON placeholder (hash, id);
CREATE INDEX placeholder_since ON placeholder (since, hash, id);

CREATE TABLE state (
	module  bytea    NOT NULL,
	space   smallint NOT NULL,
	hash    bytea    NOT NULL, -- of the key, which may be too long for an index
	key     bytea    NOT NULL,
	expires bigint   NOT NULL, -- 0 is never
	value   bytea    NOT NULL,
	PRIMARY KEY (module, space, hash)
);

CREATE TABLE relay (
	about bytea NOT NULL, -- what kind of thing is known
	hash  bytea NOT NULL, -- of the URL
	url   bytea NOT NULL,
	json  bytea NOT NULL,
	PRIMARY KEY (about, hash)
);
`, `
ALTER TABLE meta ADD COLUMN oldest int NOT NULL DEFAULT 2; -- version of a program that can work with it
ALTER TABLE total
	ADD COLUMN commits bigint NOT NULL DEFAULT 0, -- that changed any of this but placeholders
	ADD COLUMN removed bigint NOT NULL DEFAULT 0, -- rows that have left event
	ADD COLUMN expires bigint NOT NULL DEFAULT 9223372036854775807, -- the first in event
	ADD COLUMN due     bigint NOT NULL DEFAULT 9223372036854775807, -- the first thing in purgatory
	ADD COLUMN plugins bigint NOT NULL DEFAULT 0; -- number of the generation of plugins that decides, 0 for none
UPDATE total SET expires = ` + nextExpiry + `, due = ` + nextHeld + `;

CREATE TABLE writer ( -- a process that writes
	id    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	token bytea       NOT NULL, -- of its last commit
	read  bigint      NOT NULL, -- of the commits of others it knows those up to this
	alive timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 10);

-- What commits did, for the other writers. What is lost in a crash of the server, they
-- find in table event.
CREATE UNLOGGED TABLE log (
	n       bigint      PRIMARY KEY, -- total.commits after it
	writer  bigint      NOT NULL,
	before  bytea       NOT NULL, -- total.token before it
	token   bytea       NOT NULL, -- and after it
	at      timestamptz NOT NULL DEFAULT clock_timestamp(),
	changes bytea       NOT NULL -- see type changes
);
ALTER TABLE log ALTER COLUMN changes SET STORAGE EXTERNAL;

ALTER TABLE writer ADD COLUMN saves bigint NOT NULL DEFAULT 0; -- number of its last save of state
ALTER TABLE state
	ADD COLUMN n bigint NOT NULL DEFAULT 0, -- number of the last save, of all writers, that has it
	ALTER COLUMN value DROP NOT NULL;       -- NULL: it is forgotten
CREATE SEQUENCE state_save;
CREATE INDEX state_n ON state (n);

CREATE TABLE plugins ( -- generations of the plugins of all
	n       bigint PRIMARY KEY,
	node    text   NOT NULL, -- that proposed it
	records bytea  NOT NULL,
	refused text             -- why it does not decide; empty: it does, or did; NULL: it is proposed
);
CREATE TABLE plugins_answer (
	n       bigint NOT NULL,
	node    text   NOT NULL,
	problem text   NOT NULL, -- why it cannot run the generation; empty: it can
	PRIMARY KEY (n, node)
);
CREATE TABLE plugins_module (
	hash text  PRIMARY KEY, -- SHA-256, hex
	wasm bytea NOT NULL
);
ALTER TABLE plugins_module ALTER COLUMN wasm SET STORAGE EXTERNAL;
`, `
-- Why an event is held, and on what it depends: see package purgatory. A program of version 2
-- takes such a row for one that waits for git data: it expires in time.
ALTER TABLE held
	ADD COLUMN cause  smallint NOT NULL DEFAULT 0,
	ADD COLUMN parent bytea; -- key of the address, or id, of another held event
CREATE INDEX held_parent ON held (parent) WHERE parent IS NOT NULL;
CREATE INDEX held_dependent ON held (due, seq) WHERE parent IS NOT NULL;
`, `
-- Where held events came from, and how much of purgatory each author and each network has: see
-- package purgatory. The trigger keeps table held_weight in line with table held, also for
-- programs that do not know of it.
ALTER TABLE held
	ADD COLUMN network bytea, -- NULL: no share counts it
	ADD COLUMN known   boolean NOT NULL DEFAULT false; -- in the part for known people
CREATE INDEX held_network ON held (network, seq) WHERE network IS NOT NULL;

CREATE TABLE held_weight (
	class  smallint NOT NULL,
	key    bytea    NOT NULL,
	events bigint   NOT NULL,
	bytes  bigint   NOT NULL, -- of their json
	PRIMARY KEY (class, key)
) WITH (fillfactor = 50);
CREATE INDEX held_weight_events ON held_weight (class, events, key);
CREATE INDEX held_weight_bytes ON held_weight (class, bytes, key);
INSERT INTO held_weight SELECT 0, '', count(*), sum(octet_length(json)) FROM held HAVING count(*) > 0;
INSERT INTO held_weight SELECT 1, pubkey, count(*), sum(octet_length(json)) FROM held GROUP BY pubkey;
INSERT INTO held_weight SELECT 3, '', count(*), sum(octet_length(json)) FROM held WHERE parent IS NOT NULL HAVING count(*) > 0;

CREATE FUNCTION held_weigh() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	h held%ROWTYPE;
	n bigint := 1;
BEGIN
	IF TG_OP = 'DELETE' THEN
		h := OLD;
		n := -1;
	ELSE
		h := NEW;
	END IF;
	INSERT INTO held_weight AS w
		SELECT (x.class + CASE WHEN h.known THEN 8 ELSE 0 END)::smallint, x.key, n, n * octet_length(h.json) FROM (VALUES
			(0, ''::bytea), (1, h.pubkey), (2, h.network),
			(3, CASE WHEN h.parent IS NOT NULL THEN ''::bytea END),
			(4, CASE WHEN h.parent IS NOT NULL THEN h.network END)
		) x (class, key) WHERE x.key IS NOT NULL
		ON CONFLICT (class, key) DO UPDATE SET events = w.events + excluded.events, bytes = w.bytes + excluded.bytes;
	IF n < 0 THEN
		DELETE FROM held_weight WHERE events = 0 AND class IN (0, 1, 2, 3, 4, 8, 9, 10, 11, 12) AND key IN ('', h.pubkey, h.network);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER held_weigh AFTER INSERT OR DELETE ON held FOR EACH ROW EXECUTE FUNCTION held_weigh();
`, `
-- The moderation log, and the events that it has taken out of sight: see packages moderation
-- and semantics. An older program does not obey the log: all nodes are updated before the
-- operator's first row.
CREATE TABLE moderation (
	number bigint PRIMARY KEY, -- without gaps
	uid    text   NOT NULL UNIQUE,
	at     bigint NOT NULL,
	json   bytea  NOT NULL     -- the row, as a line
);
CREATE INDEX moderation_at ON moderation (at);

CREATE TABLE hidden (
	number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id         bytea  NOT NULL UNIQUE,
	pubkey     bytea  NOT NULL,
	created_at bigint NOT NULL,
	kind       int    NOT NULL,
	address    bytea,            -- its key; NULL for a kind that has none
	expires    bigint,           -- NULL: never
	json       bytea  NOT NULL
);
CREATE INDEX hidden_address ON hidden (address) WHERE address IS NOT NULL;
CREATE INDEX hidden_expires ON hidden (expires) WHERE expires IS NOT NULL;
CREATE TABLE hidden_maintainer (
	key    bytea  NOT NULL, -- as in table tag, of an announcement that lists a maintainer
	hidden bigint NOT NULL, -- its number
	PRIMARY KEY (key, hidden)
);

CREATE TABLE refused ( -- ids that sync does not fetch again, the oldest numbers go first
	number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id         bytea  NOT NULL UNIQUE,
	created_at bigint NOT NULL
);
ALTER TABLE total
	ADD COLUMN hidden       bigint NOT NULL DEFAULT 0, -- rows in hidden
	ADD COLUMN hidden_bytes bigint NOT NULL DEFAULT 0, -- of their json
	ADD COLUMN moderation   bigint NOT NULL DEFAULT 0; -- number of the last row of the log
`, `
-- The rows of words in table tag: see fills. A program that does not know of them would leave
-- those of the events that it removes.
`, `
-- What authors, repositories and kinds take: see package semantics. The fill counts what is stored.
-- A program that does not know of the table would make it wrong.
CREATE TABLE usage (
	class  smallint NOT NULL, -- see host.UsageClass
	key    bytea    NOT NULL, -- see host.UsageKey
	events bigint   NOT NULL,
	bytes  bigint   NOT NULL, -- of their json
	git    bigint   NOT NULL, -- bytes of git data
	PRIMARY KEY (class, key)
) WITH (fillfactor = 50);
`, `
-- Who may receive an event (host.Audience), NULL: everybody. Columns kind of tables event and tag
-- are higher by 65536 for a withheld event: see withheldKinds. Older programs would serve it to
-- everybody.
ALTER TABLE event ADD COLUMN audience bytea;
ALTER TABLE held ADD COLUMN audience bytea;
ALTER TABLE hidden ADD COLUMN audience bytea;
ALTER TABLE total ADD COLUMN withheld bigint NOT NULL DEFAULT 0; -- rows in event that have an audience
`, `
-- Whether another relay sent a held event: then the hunt expects no push.
ALTER TABLE held ADD COLUMN synced boolean NOT NULL DEFAULT false;
`, `
-- Authors who have asked to vanish (NIP-62): see package semantics. The indexes find what is hidden
-- of them, or addressed to them. An older program would store what a request forbids.
CREATE TABLE vanished (
	number bigint PRIMARY KEY,      -- in the order in which the requests came
	pubkey bytea  NOT NULL UNIQUE,
	until  bigint NOT NULL,         -- created_at of the request
	id     bytea  NOT NULL,
	json   bytea                    -- the request; NULL: nothing of its author was here
);
CREATE INDEX vanished_unknown ON vanished (number) WHERE json IS NULL;
ALTER TABLE total ADD COLUMN vanished bigint NOT NULL DEFAULT 0; -- rows in vanished
CREATE INDEX hidden_author ON hidden (pubkey, number);
CREATE INDEX hidden_kind ON hidden (kind, number);
`, `
-- The filter of another event for which a module holds an event: see package purgatory. Such rows
-- have weights of their own. An older program would serve such an event when its git data comes.
ALTER TABLE held ADD COLUMN wake bytea; -- canonical JSON; NULL for other causes
CREATE OR REPLACE FUNCTION held_weigh() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	h held%ROWTYPE;
	n bigint := 1;
	part int;
BEGIN
	IF TG_OP = 'DELETE' THEN
		h := OLD;
		n := -1;
	ELSE
		h := NEW;
	END IF;
	part := CASE WHEN h.known THEN 8 ELSE 0 END + CASE WHEN h.cause = 2 THEN 16 ELSE 0 END;
	INSERT INTO held_weight AS w
		SELECT (x.class + part)::smallint, x.key, n, n * octet_length(h.json) FROM (VALUES
			(0, ''::bytea), (1, h.pubkey), (2, h.network),
			(3, CASE WHEN h.parent IS NOT NULL THEN ''::bytea END),
			(4, CASE WHEN h.parent IS NOT NULL THEN h.network END)
		) x (class, key) WHERE x.key IS NOT NULL
		ON CONFLICT (class, key) DO UPDATE SET events = w.events + excluded.events, bytes = w.bytes + excluded.bytes;
	IF n < 0 THEN
		DELETE FROM held_weight WHERE events = 0 AND class IN (part, part + 1, part + 2, part + 3, part + 4) AND key IN ('', h.pubkey, h.network);
	END IF;
	RETURN NULL;
END $$;
`}

// prepare makes sure that there is a table meta in the schema that the connection's
// search path names, and so a lock for those who write.
func (l *layout) prepare(ctx context.Context, c *pgx.Conn) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		// Two that start at the same time take turns. The key is that of all Talons of
		// the database.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockClass)<<32); err != nil {
			return err
		}
		var schema, first string
		err := tx.QueryRow(ctx, `SELECT coalesce(current_schema(), ''), coalesce((parse_ident(split_part(current_setting('search_path'), ',', 1)))[1], '')`).Scan(&schema, &first)
		if err != nil {
			return err
		}
		if schema == "" {
			if _, err := tx.Exec(ctx, `CREATE SCHEMA `+pgx.Identifier{first}.Sanitize()); err != nil {
				return err
			}
		}
		if _, there, err := l.read(ctx, tx); err != nil || there {
			return err
		}
		secret := make([]byte, secretSize)
		rand.Read(secret)
		if _, err := tx.Exec(ctx, `CREATE TABLE meta (talon boolean PRIMARY KEY CHECK (talon), version int NOT NULL, secret bytea NOT NULL)`); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO meta VALUES (true, 0, $1)`, secret)
		return err
	})
}

// update brings the schema to the version of the program. Older programs that cannot work with
// the new version must not write during the update. The others wait for their turn.
func (l *layout) update(ctx context.Context, c *pgx.Conn) error {
	have, _, err := l.read(ctx, c)
	if err != nil || have >= l.version() {
		return err
	}
	for {
		// Readers, and writers that prepare statements, lock tables without the turn.
		if err := l.updateOnce(ctx, c); !deadlocked(err) {
			return err
		}
	}
}

// updateOnce makes one transaction of the update.
func (l *layout) updateOnce(ctx context.Context, c *pgx.Conn) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = 0`, lockWait.Milliseconds())); err != nil {
			return err
		}
		// Others that update the same database go first, or after.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(lockClass)<<32); err != nil {
			return inUse(err)
		}
		have, _, err := l.read(ctx, tx)
		if err != nil || have >= l.version() {
			return err
		}
		oldest := slices.Max(l.oldest[have:])
		ended := []int64{lockClass} // by version 1, everybody's
		if have > 1 {
			ended = nil
			for v := 2; v < oldest; v++ {
				ended = append(ended, versionClass+int64(v))
			}
		}
		for _, class := range append(ended, turnClass) {
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+lockKey+`)`, class); err != nil {
				return inUse(err)
			}
		}
		for ; have < l.version(); have++ {
			if _, err := tx.Exec(ctx, l.steps[have]); err != nil {
				return fmt.Errorf("bring the schema to version %d: %w", have+1, err)
			}
			if fill := l.fills[have]; fill != nil {
				if err := fill(ctx, tx); err != nil {
					return fmt.Errorf("bring the schema to version %d: %w", have+1, err)
				}
			}
			if _, err := tx.Exec(ctx, `UPDATE meta SET version = $1`, have+1); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `UPDATE meta SET oldest = greatest(oldest, $1)`, oldest)
		return err
	})
}

// inUse says what it means that a lock was not to be had in time.
func inUse(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "55P03" {
		return fmt.Errorf("%w: a Talon of another version writes to it: stop that first, or use another database or schema", semantics.ErrInUse)
	}
	return err
}

// read returns the version of the schema, and whether there is one that the program can work
// with.
func (l *layout) read(ctx context.Context, c interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (version int, have bool, err error) {
	var ours bool
	const sql = `
		SELECT to_regclass('meta') IS NOT NULL, EXISTS (
			SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('meta') AND attname = 'talon')`
	if err := c.QueryRow(ctx, sql).Scan(&have, &ours); err != nil || !have {
		return 0, false, err
	}
	if !ours {
		return 0, true, errors.New("its table meta is not Talon's: give Talon a schema of its own with search_path")
	}
	var oldest int // the first version has no such column
	if err := c.QueryRow(ctx, `SELECT version, coalesce((to_jsonb(m) ->> 'oldest')::int, version) FROM meta m`).Scan(&version, &oldest); err != nil {
		return 0, true, err
	}
	if oldest > l.version() {
		return 0, true, fmt.Errorf("%w: it has schema %d, this program knows %d: run the newer version", semantics.ErrNewer, version, l.version())
	}
	return version, true, nil
}

const (
	secretSize = 16
	keySize    = 16
)

// nameAddress stands where a tag's name would, as a byte that no tag has, like
// host.MaintainerOf.
const nameAddress = 0

// keyring makes the index keys of one database.
type keyring struct {
	secret [secretSize]byte
}

func (k *keyring) key(name byte, value string) []byte {
	b := make([]byte, 0, 256)
	b = append(b, k.secret[:]...)
	b = append(b, name)
	b = append(b, value...)
	sum := sha256.Sum256(b)
	return sum[:keySize:keySize]
}

// address is the key of the event's address, nil if it has none.
func (k *keyring) address(e *host.Event) []byte {
	a, ok := e.Address()
	if !ok {
		return nil
	}
	return k.key(nameAddress, a.String())
}

// addresses are the keys of several addresses, each once.
func (k *keyring) addresses(list []host.Address) [][]byte {
	values := make([]string, len(list))
	for i, a := range list {
		values[i] = a.String()
	}
	return k.keys(nameAddress, values)
}

// keys are those of several values under one name, each once.
func (k *keyring) keys(name byte, values []string) [][]byte {
	if name == host.AddressOf {
		name = nameAddress
	}
	keys := make([][]byte, len(values))
	for i, v := range values {
		keys[i] = k.key(name, v)
	}
	return unique(keys)
}

func unique(keys [][]byte) [][]byte {
	slices.SortFunc(keys, bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}

// tagRows are rows of a tag table, a slice for each column.
type tagRows struct {
	key, sortKey [][]byte
	kind         []int32
	seq          []int64
	expires      []*int64
}

// add appends the rows of an event: of a stored one, also those of its words.
func (r *tagRows) add(k *keyring, t tables, e *host.Event, seq int64) {
	keys := k.tags(e)
	if t == stored {
		keys = append(keys, k.words(e)...)
	}
	r.addKeys(keys, e, seq)
}

// addWords appends the rows of an event's words.
func (r *tagRows) addWords(k *keyring, e *host.Event, seq int64) { r.addKeys(k.words(e), e, seq) }

func (r *tagRows) addKeys(keys [][]byte, e *host.Event, seq int64) {
	sortKey, expires := sortKeyOf(e), expiry(e)
	for _, key := range keys {
		r.key, r.sortKey = append(r.key, key), append(r.sortKey, sortKey)
		r.kind, r.seq, r.expires = append(r.kind, indexKind(e)), append(r.seq, seq), append(r.expires, expires)
	}
}

// tags returns the keys of an event's tags, and of the maintainers that it lists.
func (k *keyring) tags(e *host.Event) (keys [][]byte) {
	semantics.Tags(e, func(name byte, value string) { keys = append(keys, k.key(name, value)) })
	semantics.Maintained(e, func(value string) { keys = append(keys, k.key(host.MaintainerOf, value)) })
	e.Audience.Each(func(value string) { keys = append(keys, k.key(host.AudienceOf, value)) })
	return keys
}

// words returns the keys of the words under which a search finds an event.
func (k *keyring) words(e *host.Event) (keys [][]byte) {
	for _, word := range e.Words() {
		keys = append(keys, k.key(host.WordOf, word))
	}
	return keys
}

// expiry is when the event expires, nil if it does not.
func expiry(e *host.Event) *int64 {
	if at, ok := e.Expiration(); ok {
		return &at
	}
	return nil
}

const sortKeySize = 40

// sortKeyOf returns the sort key of an event, which is in the column place.
func sortKeyOf(e *host.Event) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, sortKeySize), ^uint64(e.CreatedAt))
	return append(b, e.ID[:]...)
}

// parseSortKey returns the date and the id of a sort key.
func parseSortKey(b []byte) (createdAt int64, id host.ID) {
	return int64(^binary.BigEndian.Uint64(b)), host.ID(b[8:])
}

// above sorts before every sort key at or before newest, and after all others.
func above(newest int64) []byte {
	return binary.BigEndian.AppendUint64(nil, ^uint64(max(newest, 0)))
}

// under sorts after every sort key at or after oldest, and before all others.
func under(oldest int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, ^uint64(max(oldest, 0)))
	return append(b, bytes.Repeat([]byte{math.MaxUint8}, sortKeySize)...)
}
