// Package store keeps events in SQLite and answers filters from indexes.
//
// It owns the database: its schema and migrations, one writing connection with
// group commit ([Store.Begin]), a pool of reading ones, and the rules of NIP-01,
// NIP-09 and NIP-40 about what replaces, deletes and outlives what.
//
// Invariants:
//
//  1. Everything that a [Tx] committed survives the end of the process and loss of power,
//     as far as fsync is honoured. A Tx that failed left nothing behind.
//  2. An event's row number is its Seq. Seqs grow in the order of commits and are
//     never used twice, not even after a restart.
//  3. Of an address (NIP-01) at most one version is stored: the newest. Of equally new
//     versions it is the one with the lowest id.
//  4. An event that its author deleted is not stored, and is refused when it comes again.
//     Deletion events themselves cannot be deleted.
//  5. An event that has expired by the caller's now is in no answer to a filter,
//     swept or not.
//  6. An index row exists exactly for what its event says. It is in the table, or, for the
//     latest events, in memory. Each snapshot knows which ([merge]), so that it misses no
//     row and meets none twice. Rows in memory follow from the events. [Store.Check] compares.
//  7. No statement leaves the choice of an index to SQLite: plans do not depend
//     on statistics, so there are none to keep up to date.
//  8. An event in purgatory ([Tx.Hold]) is in no answer to a filter, no count, no scan
//     and no export. An event is stored or held, never both. No event is held that its
//     author deleted or that is older than the stored one at its address.
//  9. An event that is not for everybody ([host.Audience]) is in an answer, a count or a scan
//     only if the filter's [host.Reader] receives it.
//  10. An account that has read little gets to read, however many long reads are under way.
//     Turns go by what an account ([host.Share]) has used, and long reads pause between
//     pieces.
//
// Tag values, authors and addresses appear in the indexes as keyed 128-bit hashes. A key
// is short however long the value is. Without the database's own secret nobody can look
// for two values with one key.
//
// The package never judges whether an event is wanted. It checks ids and signatures only
// in Check, through a function that the caller gives. It never waits for a caller while it
// holds a snapshot.
package store
