package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"talon/host/store/semantics"
)

// The steps that lead from an empty database to the present schema. Step i makes
// version i+1. A released step is never changed, only followed by another.
//
// Columns created_at and at are unix seconds; id, pubkey and event are what
// NIP-01 calls them, as 32 bytes, and the row number in table event.
//
// Table posting is all the indexes that answer filters: tags, authors, kinds and
// time. Its key says which (see [keyring]), its sort key (see [sortKey]) sorts like an
// answer. Rows of one form let one set of statements serve every filter, and
// SQLite can hand them over many at a time. Kind comes before sort key because
// filters nearly always name kinds; those that do not merge the few kinds that a
// key has.
//
// Column json of table event holds the text as it is sent, or packed: see [pack].
//
// Rows under hashed keys, those of authors and tags, come into posting some thousand events
// late: see [merge].
//
// Table event_id finds events by their ids, which are hashed keys too: they are half as long.
// It has what an answer to a filter with ids is ordered by, so that only the texts are left to
// be looked up in table event.
//
// A withheld event has index rows of its own: see [space].
//
// Purgatory has tables of its own, so that nothing that reads events can meet it.
// Table held_posting serves as posting does, with all kinds under one key, for
// little is held.
var steps = []string{`
CREATE TABLE total (
	one    INTEGER PRIMARY KEY CHECK (one = 1),
	seq    INTEGER NOT NULL, -- the highest row number ever given
	events INTEGER NOT NULL, -- rows in event
	bytes  INTEGER NOT NULL  -- of their json
);
INSERT INTO total VALUES (1, 0, 0, 0);

CREATE TABLE event (
	seq        INTEGER PRIMARY KEY,
	id         BLOB    NOT NULL,
	pubkey     BLOB    NOT NULL,
	created_at INTEGER NOT NULL,
	kind       INTEGER NOT NULL,
	json       BLOB    NOT NULL -- as it is sent
);
CREATE UNIQUE INDEX event_id ON event (id);

CREATE TABLE posting (
	key   BLOB    NOT NULL,
	kind  INTEGER NOT NULL,
	place BLOB    NOT NULL,
	PRIMARY KEY (key, kind, place)
) WITHOUT ROWID;

CREATE TABLE address (
	key        BLOB    PRIMARY KEY,
	event      INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	id         BLOB    NOT NULL
) WITHOUT ROWID;

CREATE TABLE deleted_id (
	id     BLOB NOT NULL,
	pubkey BLOB NOT NULL, -- of who deleted it
	PRIMARY KEY (id, pubkey)
) WITHOUT ROWID;

CREATE TABLE deleted_address (
	key   BLOB    PRIMARY KEY,
	until INTEGER NOT NULL -- created_at of the newest deletion
) WITHOUT ROWID;

CREATE TABLE expiry (
	at    INTEGER NOT NULL,
	event INTEGER NOT NULL,
	PRIMARY KEY (at, event)
) WITHOUT ROWID;
`, `
CREATE TABLE state (
	module  TEXT    NOT NULL,
	space   INTEGER NOT NULL,
	key     BLOB    NOT NULL,
	expires INTEGER NOT NULL, -- unix seconds; 0 is never
	value   BLOB    NOT NULL,
	PRIMARY KEY (module, space, key)
) WITHOUT ROWID;
`, `
CREATE TABLE held (
	number     INTEGER PRIMARY KEY,
	id         BLOB    NOT NULL,
	pubkey     BLOB    NOT NULL,
	created_at INTEGER NOT NULL,
	kind       INTEGER NOT NULL,
	address    BLOB,             -- its key; NULL for a kind that has none
	since      INTEGER NOT NULL, -- it came, or its time was started again
	due        INTEGER NOT NULL, -- when it becomes dormant or goes
	dormant    INTEGER NOT NULL, -- 1 for an announcement whose repository has gone
	reason     TEXT    NOT NULL, -- as its sender was told
	json       BLOB    NOT NULL
);
CREATE UNIQUE INDEX held_id ON held (id);
CREATE INDEX held_address ON held (address) WHERE address IS NOT NULL;
CREATE INDEX held_due ON held (dormant, due);
CREATE INDEX held_author ON held (pubkey, dormant, due);

CREATE TABLE held_posting (
	key   BLOB    NOT NULL,
	place BLOB    NOT NULL, -- its last part is the number
	kind  INTEGER NOT NULL,
	held  INTEGER NOT NULL, -- the number
	PRIMARY KEY (key, place)
) WITHOUT ROWID;

CREATE TABLE held_gone (
	id    BLOB    PRIMARY KEY, -- of an announcement that waited in vain
	until INTEGER NOT NULL     -- copies from sync are refused
) WITHOUT ROWID;
CREATE INDEX held_gone_until ON held_gone (until);

ALTER TABLE total ADD COLUMN held INTEGER NOT NULL DEFAULT 0;       -- rows in held
ALTER TABLE total ADD COLUMN held_bytes INTEGER NOT NULL DEFAULT 0; -- of their json
`, `
CREATE TABLE placeholder (
	repo  BLOB    NOT NULL,                           -- the caller's own key
	id    BLOB    NOT NULL CHECK (length(id) = 32), -- of the event that is to come
	since INTEGER NOT NULL,                           -- the ref was pushed
	PRIMARY KEY (repo, id)
) WITHOUT ROWID;
CREATE INDEX placeholder_since ON placeholder (since, repo, id);
`, `
CREATE TABLE relay (
	about TEXT NOT NULL, -- what kind of thing is known
	url   TEXT NOT NULL,
	json  BLOB NOT NULL,
	PRIMARY KEY (about, url)
) WITHOUT ROWID;
`, `
-- The index rows of maintainers: see fills.
`, `
-- Rows of event may be packed, which older versions cannot read. Those that are there
-- stay as they are.
`, `
-- Which rows of posting are there, and which are yet to be merged into it: see merge.
CREATE TABLE merge (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	indexed INTEGER NOT NULL, -- those of events up to this are there
	target  INTEGER NOT NULL, -- and, under some keys, those up to this
	next    INTEGER NOT NULL  -- the first byte from which keys are not among them
);
INSERT INTO merge SELECT 1, n, n, 0 FROM (SELECT max(seq, ifnull((SELECT max(seq) FROM event), 0)) AS n FROM total);
`, `
-- Events by their id, with what orders answers: see fills.
DROP INDEX event_id;
CREATE TABLE event_id (
	key        BLOB    PRIMARY KEY, -- of the id
	created_at INTEGER NOT NULL,
	event      INTEGER NOT NULL
) WITHOUT ROWID;
`, `
-- Why an event is held, and on what it depends: see package purgatory.
ALTER TABLE held ADD COLUMN cause INTEGER NOT NULL DEFAULT 0;
ALTER TABLE held ADD COLUMN parent BLOB; -- key of the address, or id, of another held event
CREATE INDEX held_parent ON held (parent) WHERE parent IS NOT NULL;
CREATE INDEX held_dependent ON held (due) WHERE parent IS NOT NULL;
`, `
-- Where held events came from, and how much of purgatory each author and each network has: see
-- package purgatory. The triggers keep table held_weight in line with table held.
ALTER TABLE held ADD COLUMN network BLOB;                       -- NULL: no share counts it
ALTER TABLE held ADD COLUMN known INTEGER NOT NULL DEFAULT 0;   -- 1: in the part for known people
CREATE INDEX held_network ON held (network, number) WHERE network IS NOT NULL;

CREATE TABLE held_weight (
	class  INTEGER NOT NULL,
	key    BLOB    NOT NULL,
	events INTEGER NOT NULL,
	bytes  INTEGER NOT NULL, -- of their json
	PRIMARY KEY (class, key)
) WITHOUT ROWID;
CREATE INDEX held_weight_events ON held_weight (class, events);
CREATE INDEX held_weight_bytes ON held_weight (class, bytes);
INSERT INTO held_weight SELECT 0, x'', count(*), sum(length(json)) FROM held HAVING count(*) > 0;
INSERT INTO held_weight SELECT 1, pubkey, count(*), sum(length(json)) FROM held GROUP BY pubkey;
INSERT INTO held_weight SELECT 3, x'', count(*), sum(length(json)) FROM held WHERE parent IS NOT NULL HAVING count(*) > 0;

CREATE TRIGGER held_weigh AFTER INSERT ON held BEGIN
	INSERT INTO held_weight SELECT w.class + 8 * new.known, w.key, 1, length(new.json) FROM (
		SELECT 0 AS class, x'' AS key
		UNION ALL SELECT 1, new.pubkey
		UNION ALL SELECT 2, new.network
		UNION ALL SELECT 3, iif(new.parent IS NULL, NULL, x'')
		UNION ALL SELECT 4, iif(new.parent IS NULL, NULL, new.network)
	) w WHERE w.key IS NOT NULL
	ON CONFLICT (class, key) DO UPDATE SET events = events + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER held_unweigh AFTER DELETE ON held BEGIN
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 8 * old.known AND key = x'';
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 1 + 8 * old.known AND key = old.pubkey;
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 2 + 8 * old.known AND key = old.network;
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 3 + 8 * old.known AND key = x'' AND old.parent IS NOT NULL;
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 4 + 8 * old.known AND key = old.network AND old.parent IS NOT NULL;
	DELETE FROM held_weight WHERE class = 8 * old.known AND key = x'' AND events = 0;
	DELETE FROM held_weight WHERE class = 1 + 8 * old.known AND key = old.pubkey AND events = 0;
	DELETE FROM held_weight WHERE class = 2 + 8 * old.known AND key = old.network AND events = 0;
	DELETE FROM held_weight WHERE class = 3 + 8 * old.known AND key = x'' AND events = 0;
	DELETE FROM held_weight WHERE class = 4 + 8 * old.known AND key = old.network AND events = 0;
END;
`, `
-- The moderation log, and the events that it has taken out of sight: see packages moderation
-- and semantics.
CREATE TABLE moderation (
	number INTEGER PRIMARY KEY, -- without gaps
	uid    TEXT    NOT NULL,
	at     INTEGER NOT NULL,
	json   BLOB    NOT NULL     -- the row, as a line
);
CREATE UNIQUE INDEX moderation_uid ON moderation (uid);
CREATE INDEX moderation_at ON moderation (at);

CREATE TABLE hidden (
	number     INTEGER PRIMARY KEY,
	id         BLOB    NOT NULL,
	pubkey     BLOB    NOT NULL,
	created_at INTEGER NOT NULL,
	kind       INTEGER NOT NULL,
	address    BLOB,             -- its key; NULL for a kind that has none
	expires    INTEGER,          -- NULL: never
	json       BLOB    NOT NULL
);
CREATE UNIQUE INDEX hidden_id ON hidden (id);
CREATE INDEX hidden_address ON hidden (address) WHERE address IS NOT NULL;
CREATE INDEX hidden_expires ON hidden (expires) WHERE expires IS NOT NULL;
CREATE TABLE hidden_maintainer (
	key    BLOB    NOT NULL, -- as in table posting, of an announcement that lists a maintainer
	hidden INTEGER NOT NULL, -- its number
	PRIMARY KEY (key, hidden)
) WITHOUT ROWID;

CREATE TABLE refused ( -- ids that sync does not fetch again, the oldest numbers go first
	number     INTEGER PRIMARY KEY,
	id         BLOB    NOT NULL,
	created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX refused_id ON refused (id);

ALTER TABLE total ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0;       -- rows in hidden
ALTER TABLE total ADD COLUMN hidden_bytes INTEGER NOT NULL DEFAULT 0; -- of their json
`, `
-- The index rows of words: see fills.
`, `
-- What authors, repositories and kinds take: see package semantics. The fill counts what is stored.
CREATE TABLE usage (
	class  INTEGER NOT NULL, -- see host.UsageClass
	key    BLOB    NOT NULL, -- see host.UsageKey
	events INTEGER NOT NULL,
	bytes  INTEGER NOT NULL, -- of their json
	git    INTEGER NOT NULL, -- bytes of git data
	PRIMARY KEY (class, key)
) WITHOUT ROWID;
CREATE TABLE usage_point (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	seq INTEGER NOT NULL -- table usage has the events up to this
);
`, `
-- Who may receive an event (host.Audience), NULL: everybody. The index rows of withheld events
-- have a kind that is higher by 65536: see withheldKinds.
ALTER TABLE event ADD COLUMN audience BLOB;
ALTER TABLE event_id ADD COLUMN withheld INTEGER;                     -- NULL: it is for everybody
ALTER TABLE held ADD COLUMN audience BLOB;
ALTER TABLE hidden ADD COLUMN audience BLOB;
ALTER TABLE total ADD COLUMN withheld INTEGER NOT NULL DEFAULT 0; -- rows in event that have an audience
`, `
-- Whether another relay sent a held event: then the hunt expects no push.
ALTER TABLE held ADD COLUMN synced INTEGER NOT NULL DEFAULT 0;
`, `
-- Authors who have asked to vanish (NIP-62): see package semantics. The indexes find what is hidden
-- of them, or addressed to them.
CREATE TABLE vanished (
	number INTEGER PRIMARY KEY, -- in the order in which the requests came
	pubkey BLOB    NOT NULL,
	until  INTEGER NOT NULL,    -- created_at of the request
	id     BLOB    NOT NULL,
	json   BLOB                 -- the request; NULL: nothing of its author was here
);
CREATE UNIQUE INDEX vanished_pubkey ON vanished (pubkey);
CREATE INDEX vanished_unknown ON vanished (number) WHERE json IS NULL;
ALTER TABLE total ADD COLUMN vanished INTEGER NOT NULL DEFAULT 0; -- rows in vanished
CREATE INDEX hidden_author ON hidden (pubkey);
CREATE INDEX hidden_kind ON hidden (kind);
`, `
-- The filter of another event for which a module holds an event: see package purgatory. Such rows
-- have weights of their own.
ALTER TABLE held ADD COLUMN wake BLOB; -- canonical JSON; NULL for other causes
DROP TRIGGER held_weigh;
DROP TRIGGER held_unweigh;
CREATE TRIGGER held_weigh AFTER INSERT ON held BEGIN
	INSERT INTO held_weight SELECT w.class + 8 * new.known + 16 * (new.cause = 2), w.key, 1, length(new.json) FROM (
		SELECT 0 AS class, x'' AS key
		UNION ALL SELECT 1, new.pubkey
		UNION ALL SELECT 2, new.network
		UNION ALL SELECT 3, iif(new.parent IS NULL, NULL, x'')
		UNION ALL SELECT 4, iif(new.parent IS NULL, NULL, new.network)
	) w WHERE w.key IS NOT NULL
	ON CONFLICT (class, key) DO UPDATE SET events = events + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER held_unweigh AFTER DELETE ON held BEGIN
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 8 * old.known + 16 * (old.cause = 2) AND key = x'';
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 1 + 8 * old.known + 16 * (old.cause = 2) AND key = old.pubkey;
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 2 + 8 * old.known + 16 * (old.cause = 2) AND key = old.network;
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 3 + 8 * old.known + 16 * (old.cause = 2) AND key = x'' AND old.parent IS NOT NULL;
	UPDATE held_weight SET events = events - 1, bytes = bytes - length(old.json)
		WHERE class = 4 + 8 * old.known + 16 * (old.cause = 2) AND key = old.network AND old.parent IS NOT NULL;
	DELETE FROM held_weight WHERE class = 8 * old.known + 16 * (old.cause = 2) AND key = x'' AND events = 0;
	DELETE FROM held_weight WHERE class = 1 + 8 * old.known + 16 * (old.cause = 2) AND key = old.pubkey AND events = 0;
	DELETE FROM held_weight WHERE class = 2 + 8 * old.known + 16 * (old.cause = 2) AND key = old.network AND events = 0;
	DELETE FROM held_weight WHERE class = 3 + 8 * old.known + 16 * (old.cause = 2) AND key = x'' AND events = 0;
	DELETE FROM held_weight WHERE class = 4 + 8 * old.known + 16 * (old.cause = 2) AND key = old.network AND events = 0;
END;
`}

// applicationID marks SQLite files as ours ("Taln").
const applicationID = 0x54616c6e

// Version is the newest schema this package knows.
var Version = len(steps)

var (
	// ErrNewer says that a newer Talon wrote the database.
	ErrNewer = semantics.ErrNewer

	// ErrForeign says that the file is not a database of Talon.
	ErrForeign = errors.New("not a database of Talon")
)

// version returns the schema version of the database, 0 for an empty one. It
// writes nothing.
func (c *conn) version() (int, error) {
	ctx := context.Background()
	id, err := c.number(ctx, `PRAGMA application_id`)
	if err != nil {
		return 0, err
	}
	objects, err := c.number(ctx, `SELECT count(*) FROM sqlite_schema`)
	if err != nil {
		return 0, err
	}
	switch {
	case id == 0 && objects == 0:
		return 0, nil
	case id != applicationID:
		return 0, ErrForeign
	}
	v, err := c.number(ctx, `SELECT value FROM meta WHERE name = 'version'`)
	return int(v), err
}

// migrate brings the database from version v to the last of the steps, each in a
// transaction of its own, so that a crash leaves one version or the next.
func (c *conn) migrate(v int, steps []string) error {
	for ; v < len(steps); v++ {
		if err := c.step(v, steps[v]); err != nil {
			return fmt.Errorf("migrate to version %d: %w", v+1, errors.Join(err, c.abandon()))
		}
	}
	return nil
}

func (c *conn) step(v int, sql string) error {
	if err := c.script(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	if v == 0 {
		if err := c.found(); err != nil {
			return err
		}
	}
	if err := c.script(sql); err != nil {
		return err
	}
	if fill := fills[v]; fill != nil {
		if err := fill(c); err != nil {
			return err
		}
	}
	if err := c.exec(`UPDATE meta SET value = ? WHERE name = 'version'`, int64(v+1)); err != nil {
		return err
	}
	return c.script(`COMMIT`)
}

// found makes the table that every version has, since it says which one it is.
func (c *conn) found() error {
	secret := make([]byte, secretSize)
	rand.Read(secret)
	err := c.script(fmt.Sprintf(`PRAGMA application_id = %d;
		CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID`, applicationID))
	if err != nil {
		return err
	}
	return c.exec(`INSERT INTO meta VALUES ('version', 0), ('secret', ?)`, secret)
}

// abandon rolls back, if SQLite has not done so on its own.
func (c *conn) abandon() error {
	if c.sqlite.AutoCommit() {
		return nil
	}
	return c.script(`ROLLBACK`)
}
