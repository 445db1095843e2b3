// Package postgres keeps events in PostgreSQL, 15 or later. It answers like SQLite's
// engine, package store, in the same bytes and the same order: both pass storetest.
//
// Invariants:
//
//  1. Commit returns nil when the server has committed, with its synchronous_commit on.
//     If the connection ends meanwhile, the outcome is looked up before anything is said:
//     table total carries a token of the last commit.
//  2. One process writes. It does so on one connection, which has an advisory lock for as
//     long as it lives: who lost the connection has lost the lock with it, so nothing can
//     be written late. Who gets the lock back and finds the token of somebody else's
//     commit writes no more, for decisions may rest on what is not so any more.
//  3. Seqs grow in the order of commits and are never used twice.
//  4. A read is one statement, and so one snapshot.
//  5. No text of strangers is in a column of type text: bytea holds every byte, and sorts
//     like Go does, whatever the collation of the database is.
//  6. Plans do not depend on statistics: the ways that would are switched off on each
//     connection, and each span of an index is a lateral query of its own.
//
// Index keys of tags and addresses are keyed 128-bit hashes, as in package store.
package postgres
