// Package history keeps the generations of plugins that ran, so that a restart and
// a rollback find them, whatever has happened to the folder of plugins.
//
// A record for each name is a JSON file. Modules lie beside the records, each
// once, under the SHA-256 of its bytes.
//
// Invariants:
//
//  1. A change is durable before its method returns. A crash at any point leaves
//     the record before the change, or the one after it.
//  2. A record names no module that is not there: the module is written before
//     the record, and deleted after the last record that names it has changed.
//  3. A module is returned only if it has the SHA-256 that was asked for.
//  4. Nothing on the disk makes [Open] fail, unless it cannot make or read the
//     folder: what is damaged is set aside, and [History.Problems] says so.
//
// One process at a time uses a history.
package history
