// Package cluster makes several Talons on one PostgreSQL one relay: it keeps which nodes
// are alive, which node has each role, and which may write to a repository.
//
// A node joins with a connection of its own, its session. The session has a row in table
// node, which the node renews, and a number, which no session had before. Locks are
// session advisory locks: they end with the connection. What one node asks of another goes
// through table call, which each looks at when it renews its session.
//
// Invariants:
//
//  1. A session is over for its node before it is over for others. A node counts from
//     when it asked for a renewal, by its monotonic clock; others from when the database
//     carried that out, by the clock of the database. Whoever finds a session that was
//     not renewed in time ends its connection, and so gives its locks free.
//  2. A lost connection is a lost session, whatever the reason: locks are not taken over
//     into the next one, which has a higher number.
//  3. Two nodes never have the same name at the same time.
//  4. A lock alone does not keep out a node that was paused and goes on: what must not
//     happen late compares the session's number where it happens. Package gitrepo does.
//
// A nil *Cluster is a node that is alone: all locks and roles are its own, at no cost.
package cluster
