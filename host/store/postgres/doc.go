// Package postgres keeps events in PostgreSQL, 15 or later. It gives the same answers as
// SQLite's engine, package store, in the same bytes and the same order: both pass
// storetest.
//
// Invariants:
//
//  1. Commit returns nil when the server has committed, with its synchronous_commit on.
//     If the connection ends meanwhile, the outcome is looked up before anything is said:
//     table writer has a token of the last commit of each process.
//  2. Processes that write take turns: a transaction of events holds an advisory lock from
//     its beginning to its end, and begins with what others have committed (table log), so
//     nothing that it reads or is decided in it is out of date. Who does not go on for
//     idleTime is ended by the server, and can write nothing late.
//  3. Seqs grow in the order of commits and are never used twice. Each process gets the
//     commits of all others, once, in that order. Where the log has a gap, it gets notice
//     of that, and the events that have come since.
//  4. A read is one statement, and so one snapshot.
//  5. No text of strangers is in a column of type text: bytea holds every byte, and sorts
//     like Go does, whatever the collation of the database is.
//  6. Plans do not depend on statistics: the ways that would are switched off on each
//     connection, and each span of an index is a lateral query of its own.
//
// Index keys of tags and addresses are keyed 128-bit hashes, as in package store.
package postgres
