package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"talon/host/store/semantics"
)

// Version is the schema that this program knows.
const Version = 1

// The steps that lead from an empty schema to the present one. Step i makes version i+1.
// A released step is never changed, only followed by another.
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
`}

// prepareSchema makes sure that there is a table meta in the schema that the connection's
// search path names, and so a lock for who writes.
func prepareSchema(ctx context.Context, c *pgx.Conn) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		// Two that start at once take turns. The key is that of all Talons of the database.
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
		if _, there, err := version(ctx, tx); err != nil || there {
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

// migrate brings the schema to the present version. REQUIRES: c has the lock of who writes.
func migrate(ctx context.Context, c *pgx.Conn) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		have, _, err := version(ctx, tx)
		if err != nil {
			return err
		}
		for ; have < Version; have++ {
			if _, err := tx.Exec(ctx, steps[have]); err != nil {
				return fmt.Errorf("bring the schema to version %d: %w", have+1, err)
			}
			if _, err := tx.Exec(ctx, `UPDATE meta SET version = $1`, have+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// version returns that of the schema, and whether there is one.
func version(ctx context.Context, c interface {
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
	if err := c.QueryRow(ctx, `SELECT version FROM meta`).Scan(&version); err != nil {
		return 0, true, err
	}
	if version > Version {
		return 0, true, fmt.Errorf("%w: it has schema %d, this program knows %d: run the newer version", semantics.ErrNewer, version, Version)
	}
	return version, true, nil
}
