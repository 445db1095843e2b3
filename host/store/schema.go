package store

// The steps that lead from an empty database to the present schema. Step i makes
// version i+1. A released step is never changed, only followed by another.
//
// Columns created_at and at are unix seconds; id, pubkey and event are what
// NIP-01 calls them, as 32 bytes, and the row number in table event.
//
// Table posting is all the indexes that answer filters: tags, authors, kinds and
// time. Its key says which (see [keyring]), its place (see [place]) sorts like an
// answer. Rows of one form let one set of statements serve every filter, and
// SQLite can hand them over many at a time. Kind comes before place because
// filters nearly always name kinds; those that do not merge the few kinds that a
// key has.
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
`}
