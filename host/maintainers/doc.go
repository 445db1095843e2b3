// Package maintainers follows the lists of maintainers of repository announcements, stored
// and held: from an author up to the owners whom it works for, and from an owner down to
// those who work for it (NIP-34, GRASP-01).
//
// Invariants:
//
//  1. What strangers announce under the same identifier costs nothing: each step is a
//     lookup by address or by maintainer, none by identifier.
//  2. A walk ends, also where maintainers list each other, and reads a bounded number of
//     announcements.
//  3. Of two announcements by one author the newer counts.
//
// It keeps nothing and decides nothing: what a maintainer may do is for package grasp of
// the SDK to say.
package maintainers
